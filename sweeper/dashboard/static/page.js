"use strict";
// Polls, draws and links selections. Python decides what is shown, in dashboard/views.
const $ = (id) => document.getElementById(id);
const MOST_SELECTED = 6, POLL_MS = 2000, REST_MS = 10000;
const study = Number(new URLSearchParams(location.search).get("study")) || 0, tables = {}, digests = {};
const drawnRows = new Map(), selected = new Set(), curves = new Map(), charts = new Map(), chosen = new Map();
let report = null, shown = null, grid = null; // data of a report; the rows that pass the filters, if not all
let firstRun = null; // of the study that the page shows, as soon as it is known
let hasSelected = false, lacksCurves = false; // any trial, also the best by itself; of a selected trial, until the next poll
const REPLACED = ["series", "xAxis", "yAxis", "visualMap"]; // others keep what the reader did, and keys that they are not given
const DEFAULTS = { min: null, max: null, minInterval: null, logBase: 10 }; // of axes that are not replaced, since they keep the brushes
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const span = (textContent, className = "") => Object.assign(document.createElement("span"), { textContent, className });
function fmt(value) { // like `number` in results/formatting.py
  const size = Math.abs(value), isHuge = size >= 1e6;
  if (typeof value !== "number" || (Number.isInteger(value) && size < 1e10)) return value == null ? "–" : String(value);
  let digits = isHuge ? 3 : Math.max(4, Math.floor(Math.log10(size)) + 1);
  while (size < 1 && digits < 6 && Number(size.toPrecision(digits)) === 1) digits++;
  const rounded = Number(value.toPrecision(digits));
  return isHuge || size < 1e-4 ? exponential(rounded) : String(rounded);
}
const exponential = (value) => value.toExponential().replace("e+", "e");
const tick = (value) => Math.abs(value) >= 1e6 ? exponential(value) : fmt(value);

// Tables: unpacks columns and appends them to existing ones.
function extend(name, sent) {
  const table = (tables[name] ??= { n: 0, through: -1, columns: {} });
  for (const [key, packed] of Object.entries(sent.columns)) {
    const column = packed.of ? packed.at.map((place) => packed.of[place]) : packed;
    table.columns[key] = (table.columns[key] ?? []).concat("all" in column ? new Array(sent.new).fill(column.all) : column);
  }
  Object.assign(table, { n: table.n + sent.new, through: Math.max(table.through, sent.through) });
  return table.n === sent.n; // otherwise the study was started from scratch
}

// Charts: options from Python, filled with columns and colours.
const near = new IntersectionObserver((entries) => {
  entries.forEach(({ target, isIntersecting }) => { charts.get(target.dataset.chart).near = isIntersecting; });
  redraw();
}, { rootMargin: "400px" });
const resized = new ResizeObserver((entries) => entries.forEach(({ target }) => charts.get(target.dataset.chart).chart.resize()));
const rectangle = (from, height, part) => (data, params, api) => { // neighbouring rounds have different shades
  const [left, middle] = api.coord([api.value(1), api.value(0)]), [right] = api.coord([api.value(2), api.value(0)]);
  const lane = api.size([0, 1])[1], { x, y, width, height: whole } = params.coordSys, share = part ? api.value(4) : 1;
  const top = middle + (from + (part === "lower" ? height * (1 - share) : 0)) * lane;
  const given = { x: left, y: top, width: Math.max(right - left, 1), height: height * share * lane };
  const shape = right > left && share > 0 && echarts.graphic.clipRectByRect(given, { x, y, width, height: whole });
  const text = part === "lower" && shape && shape.width > 22 && shape.height > 11 && `${api.value(5)}/${api.value(6)}`;
  const label = text && { textContent: { style: { text, fill: css("ground"), fontSize: 11 } }, textConfig: { position: "inside" } };
  return shape && { type: "rect", shape, style: { fill: api.visual("color"), opacity: api.value(3) % 2 ? 1 : 0.6 }, ...label };
};
const renderers = {
  band(data, params, api) { // the area between two columns, drawn at once
    if (params.dataIndexInside) return null;
    const low = data.map((row) => api.coord([row[0], row[1]])), high = data.map((row) => api.coord([row[0], row[2]]));
    return { type: "polygon", shape: { points: low.concat(high.reverse()) }, style: { fill: css("band"), opacity: 0.22 } };
  },
  used: rectangle(-0.44, 0.52, "lower"), unused: rectangle(-0.44, 0.52, "upper"), whole: rectangle(-0.44, 0.52), below: rectangle(0.12, 0.18), mark: rectangle(0.33, 0.07),
};
function dataOf(own) { // the rows of a series, each with its index in the table at the end
  const { columns: all, n } = tables[own.table], columns = own.columns.map((name) => all[name] ?? []), edges = own.edges ?? [];
  const isLine = own.type === "parallel", only = own.only === "selected" ? selected : own.only && new Set(own.only);
  const data = [];
  for (let row = 0; row < n; row++) {
    if ((own.where && all[own.where[0]][row] !== own.where[1]) || (only && !only.has(all.trial_number[row]))) continue;
    if (shown && own.table === "trials" && !isLine && only !== selected && !shown.has(row)) continue;
    const values = columns.map((column, at) => column[row] ?? edges[at]); // missing values are drawn at an edge
    if (isLine || values.every((value) => value != null && !(value <= own.above))) data.push([...values, row]);
  }
  return data;
}
function chosenCurves([metric, phase]) {
  const own = [...selected].map((number, at) => [number, css(`line${at}`), curves.get(number) ?? []]);
  return own.flatMap(([number, color, known]) => known.filter((it) => it[0] === metric && it[1] === phase).map((it) => ({
    type: "line", name: `trial ${number}`, z: 5, color, lineStyle: { width: 2.2, color }, itemStyle: { color },
    data: it[2].map((epoch, i) => [epoch, it[3][i]]), symbol: it[2].length === 1 ? "circle" : "none",
  })));
}
function filled({ option, curves: own, chart, node }) {
  const [text, faint, line, ground, raised, accent] = ["text", "faint", "line", "ground", "raised", "accent"].map(css), textStyle = { color: text };
  const axis = (given) => ({
    axisLine: { show: true, lineStyle: { color: faint } }, axisTick: { lineStyle: { color: faint } },
    splitLine: { show: given.dim === undefined, lineStyle: { color: line } }, nameTextStyle: textStyle, ...given,
    axisLabel: { color: text, hideOverlap: true, textBorderColor: ground, textBorderWidth: 3, ...given.axisLabel, ...(given.type === "category" ? {} : { formatter: tick }) },
    areaSelectStyle: { color: accent, borderColor: accent, opacity: 0.35, width: 18 },
  });
  const series = option.series.map((own) => {
    const data = own.columns ? dataOf(own) : own.data, color = own.tone && css(own.tone);
    const isRing = own.only === "selected", ring = { color: "transparent", borderColor: color, borderWidth: 2.5 };
    const tinted = color && { color, itemStyle: isRing ? ring : { color, opacity: own.renderer === "band" ? 0.3 : own.type === "scatter" ? 0.75 : 1 } };
    const renderItem = own.renderer && ((params, api) => renderers[own.renderer](data, params, api));
    return { ...own, data, ...tinted, lineStyle: { ...(color && { color }), ...own.lineStyle }, ...(renderItem && { renderItem }) };
  });
  series.push(...(own ? chosenCurves(own) : []));
  const looks = {
    xAxis: axis, yAxis: axis, parallelAxis: (it) => axis({ ...DEFAULTS, ...it }), grid: (it) => ({ ...it, top: Math.min(it.lower ?? it.top, it.top + 22 * Math.floor((1.1 * it.below || 0) / node.clientWidth)) }),
    legend: (it) => ({ top: 2, itemWidth: 18, itemHeight: 10, itemGap: 12, textStyle, inactiveColor: line, pageTextStyle: textStyle, pageIconColor: text, ...it }),
    tooltip: (it) => ({ ...it, backgroundColor: ground, borderColor: line, formatter: (hit) => span(tip(hit, option), "tip") }),
    visualMap: (it) => ({ ...it, inRange: { color: css("scale").split(" ")[it.best === "low" ? "reverse" : "slice"]() }, textStyle }),
    dataZoom: ({ start, end, ...it }) => ({ // keep the zoom of the reader
      ...it, ...(chart.isNew && { start, end }), backgroundColor: raised, borderColor: line, fillerColor: `${accent}33`, textStyle }),
  };
  const full = Object.entries(option).map(([name, it]) => [name, !looks[name] ? it : Array.isArray(it) ? it.map(looks[name]) : looks[name](it)]);
  return { ...Object.fromEntries(full), series, textStyle: { color: text, fontFamily: "system-ui, sans-serif" } };
}
function tip(hit, option) {
  if (Array.isArray(hit)) {
    const values = hit.map((it) => `${it.seriesName}: ${[it.value].flat().slice(Array.isArray(it.value)).map(fmt).join(" to ")}`);
    return [`${option.xAxis.name} ${fmt(hit[0]?.axisValue)}${option.yAxis.name && `, ${option.yAxis.name}`}`, ...values].join("\n");
  }
  const own = option.series[hit.seriesIndex], names = [option.xAxis?.name, option.yAxis?.name];
  if (!own?.table) return [hit.seriesName, ...names.map((name, at) => `${name}: ${fmt(hit.value[at])}`)].join("\n");
  const row = hit.value.at(-1), all = tables[own.table].columns;
  const tips = (own.tips ?? grid.tips).filter(([name]) => all[name]?.[row] != null);
  return tips.map(([name, title, unit]) => `${title}: ${fmt(all[name][row])} ${unit}`).join("\n");
}
function redraw() {
  for (const item of charts.values()) {
    if (!item.near || !item.stale || !item.node.isConnected) continue;
    if (!item.chart) {
      item.chart = Object.assign(echarts.init(item.node), { isNew: true });
      resized.observe(item.node);
      // ECharts would keep the page from scrolling, whichever key it zooms with
      for (const kind of ["wheel", "mousewheel"]) item.node.addEventListener(kind, (event) => event.ctrlKey || event.stopPropagation(), true);
      item.chart.on("click", (hit) => clicked(hit, item.option));
      item.chart.on("axisareaselected", () => brush(item));
    }
    const drawn = filled(item);
    item.chart.setOption(drawn, { replaceMerge: REPLACED });
    drawn.series.forEach((own, at) => own.type === "parallel" && breakLines(item.chart, own.data, at));
    item.chart.isNew = item.stale = false;
  }
}
function breakLines(chart, rows, index) { // ECharts would draw across an axis on which a trial has no value
  const data = chart.getModel().getSeriesByIndex(index).getData();
  rows.forEach((row, place) => {
    const values = row.slice(0, -1), line = data.getItemGraphicEl(place);
    if (!line || values.every((value) => value != null)) return;
    line.buildPath = (path, { points }) => { // one point per value
      let next = 0;
      values.forEach((value, at) => {
        if (value == null) return;
        const [x, y] = points[next++], isFirst = values[at - 1] == null;
        path[isFirst ? "moveTo" : "lineTo"](x, y);
        if (isFirst && values[at + 1] == null) path.arc(x, y, 1.5, 0, 2 * Math.PI); // between two gaps
      });
    };
    line.dirtyShape();
  });
}
function unzoom({ chart, option }) {
  option.dataZoom.forEach(({ start = 0, end = 100 }, dataZoomIndex) => chart?.dispatchAction({ type: "dataZoom", dataZoomIndex, start, end }));
}
const ofTrials = (item) => item.curves || item.option.series.some((it) => it.table === "trials" && it.type !== "parallel");
function restale(test = () => true) {
  charts.forEach((item) => { item.stale ||= Boolean(test(item)); });
  redraw();
}

// Selections: a click selects a trial; a brush or a filter of the table narrows every view.
function clicked(hit, option) {
  const { table, type } = option.series[hit.seriesIndex] ?? {}, all = tables[table]?.columns;
  if (table === "trials" && type !== "parallel") toggle(all.trial_number[hit.value.at(-1)]);
  if (table === "buckets") select(JSON.parse(all.trials[hit.value.at(-1)]));
}
const toggle = (number) => select(selected.has(number) ? [...selected].filter((it) => it !== number) : [...selected, number]);
async function select(numbers, isAnew = false) {
  selected.clear();
  numbers.slice(-MOST_SELECTED).forEach((number) => selected.add(number));
  hasSelected ||= selected.size > 0;
  mark();
  restale(ofTrials);
  lacksCurves = false;
  try {
    for (const number of [...selected].filter((it) => isAnew || !curves.get(it)?.length)) {
      curves.set(number, report ? report.curves[study][number] ?? [] : await ask(`studies/${study}/curves/${number}`));
    }
  } catch (error) { [lacksCurves, $("trouble").textContent] = [true, `No curves: ${error.message}`]; }
  restale((item) => item.curves);
  mark();
}
function mark() {
  const missing = [...selected].filter((number) => curves.get(number)?.length === 0).join(", ");
  if ($("picked") && document.activeElement !== $("picked")) $("picked").value = [...selected].join(" "); // nobody is typing there
  if ($("missing")) $("missing").textContent = missing && `${report ? "This report contains no curves" : "There are no curves yet"} of trial ${missing}.`;
  document.querySelectorAll("[data-trial]").forEach((it) => { it.ariaPressed = selected.has(Number(it.dataset.trial)); });
  drawnRows.forEach(markRow);
}
const markRow = (node, number) => { node.ariaSelected = selected.has(number); };
function brush({ chart, option }) {
  const brushed = [];
  chart.getModel().eachComponent("parallelAxis", (it) => it.activeIntervals.length && brushed.push([option.parallelAxis[it.option.dim], it.activeIntervals]));
  grid.table.setFilter((row) => brushed.every(([{ column, data }, intervals]) => {
    const found = row[column], value = typeof found === "string" ? data.indexOf(found) : found;
    return value != null && intervals.some(([low, high]) => value >= low && value <= high);
  }));
}

// The table of trials.
function matches(wanted, found) { // "> 0.9", "<= 3", "0.9..1", "= relu", "!= relu", "null", or part of what is shown
  const [, sign, after] = wanted.trim().toLowerCase().match(/^(>=|<=|!=|>|<|=)?\s*(.*)$/), rest = after === "–" ? "null" : after;
  const text = found == null ? "null" : fmt(found).toLowerCase(), numbers = typeof found === "number" ? [found, Number(text)] : [];
  const [, low, high] = rest.match(/^(\S*)\s*\.\.\s*(\S*)$/) ?? [], [least, most] = [Number(low || -Infinity), Number(high || Infinity)];
  if ((low || high) && !Number.isNaN(least + most)) return numbers.some((it) => it >= least && it <= most);
  if (rest === "" || !sign) return text.includes(rest);
  const bound = Number(rest), isEqual = text === rest || numbers.includes(bound);
  if (sign === "=" || sign === "!=") return isEqual === (sign === "=");
  const isBeyond = (it) => (sign[0] === ">" ? it > bound : it < bound); // both as it is and as it is shown
  return numbers.length > 0 && (sign.length > 1 ? isEqual || numbers.some(isBeyond) : numbers.every(isBeyond));
}
function makeGrid({ columns, options, tips, meanings, units, began_at: began }) {
  const own = (name) => tables.trials.columns[name];
  const rowsFrom = (from) => Array.from({ length: tables.trials.n - from }, (_, i) =>
    Object.fromEntries([["_row", from + i], ...columns.map(({ field }) => [field, own(field)[from + i]])]));
  const isConstant = (name) => tables.trials.n > 1 && own(name).every((value) => value === own(name)[0]);
  const sorts = (cell) => Object.assign(document.createElement("button"), { // buttons, so that keys sort too; rows scroll to its column
    type: "button", textContent: cell.getValue(), onfocus: ({ target }) => target.matches(":focus-visible") && table.scrollToColumn(cell.getColumn(), "middle", true) });
  const recorded = (value, unit) => { // as `sweeper trials --csv` prints it
    if (value == null || !unit) return value;
    if (unit === "MB") return Math.round(value * 1e6);
    const micros = Math.round((began + value) * 1e6), digits = String(micros % 1e6).padStart(6, "0");
    return new Date(Math.floor(micros / 1e6) * 1000).toISOString().replace("T", " ").replace(".000Z", `.${digits}+00:00`);
  };
  const exported = (value, _, __, ___, column) => recorded(value, units[column.getField()]);
  let held = tables.trials.n;
  const table = new Tabulator("#table", {
    ...options, data: rowsFrom(0),
    columnDefaults: {
      ...options.columnDefaults, headerFilterFunc: matches, accessorDownload: exported, accessorClipboard: exported, formatter: (cell) => span(fmt(cell.getValue())),
      titleFormatter: sorts, headerTooltip: (_, it) => span(meanings[it.getField()]),
    },
    columns: columns.map((it) => ({ ...it, visible: !isConstant(it.field) })),
    rowFormatter: (row) => {
      const node = row.getElement(), number = row.getData().trial_number;
      node.tabIndex = -1; // reachable with arrow keys
      drawnRows.set(number, node);
      markRow(node, number);
    },
  });
  $("table").onkeydown = (event) => {
    const row = event.target.closest(".tabulator-row"), way = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
    if (row && event.key === "Enter") toggle(table.getRow(row).getData().trial_number);
    if (!way || event.target.closest("input")) return;
    event.preventDefault();
    (row ? row[way] : $("table").querySelector(".tabulator-row"))?.focus();
  };
  const boxes = [...document.querySelectorAll("[data-column]")];
  const show = (box, on) => { box.checked = on; table[on ? "showColumn" : "hideColumn"](box.dataset.column); };
  const offer = () => boxes.filter((box) => !box.isChosen && box.checked === ($("hides").checked && isConstant(box.dataset.column)))
    .forEach((box) => show(box, !box.checked));
  for (const box of boxes) box.onchange = () => { box.isChosen = true; show(box, box.checked); };
  const name = { role: "group", ariaLabel: "rows of trials: move with the arrow keys, select with Enter" };
  table.on("tableBuilt", () => { Object.assign($("table").querySelector(".tabulator-tableholder"), name); offer(); });
  table.on("rowClick", (_, row) => toggle(row.getData().trial_number));
  table.on("dataFiltered", (_, rows) => {
    shown = rows.length === tables.trials.n ? null : new Set(rows.map((row) => row.getData()._row));
    $("count").textContent = shown ? `${rows.length} of ${tables.trials.n} trials pass the filters` : `${rows.length} trials`;
    restale(ofTrials);
  });
  $("hides").onchange = offer;
  [$("copy").onclick, $("csv").onclick] = [() => table.copyToClipboard("active"), () => table.download("csv", "trials.csv")];
  $("clear").onclick = () => {
    const none = (parallelAxisIndex) => ({ type: "axisAreaSelect", parallelAxisIndex, intervals: [] });
    for (const { chart, option } of charts.values()) option.parallelAxis?.forEach((_, at) => chart?.dispatchAction(none(at)));
    table.clearFilter(true);
  };
  const grow = async () => {
    if (!table.initialized || held === tables.trials.n) return;
    const more = rowsFrom(held);
    held = tables.trials.n;
    await table.addData(more);
    table.setSort(table.getSorters().map(({ field, dir }) => ({ column: field, dir })));
    offer();
  };
  return { tips, table, grow };
}

// The page: puts received data in place.
function apply(sent) {
  const whole = ["trials", "buckets", "spans"].map((name) => extend(name, sent.tables[name]));
  const isOther = firstRun !== null && sent.first_run !== firstRun;
  if (isOther || whole.includes(false)) return location.reload(); // the study was started from scratch
  firstRun = sent.first_run;
  $("title").textContent = document.title = sent.name;
  if ($("said").textContent !== sent.said) $("said").textContent = sent.said; // read by screen readers
  sent.views.filter((view) => view.charts && !(view.name === "trials" && grid)).forEach(show); // columns are kept
  grid?.grow();
  restale();
  const haveGrown = sent.views.some((view) => view.name === "curves" && view.charts), known = [...curves.keys()];
  if (haveGrown) known.filter((number) => !selected.has(number)).forEach((number) => curves.delete(number));
  if (!hasSelected && sent.select !== null) select([sent.select]);
  else if (haveGrown || lacksCurves) select([...selected], true);
  $("main").ariaBusy = "false";
}
function show(view) {
  const body = $(view.name).querySelector(".body"), focused = document.activeElement.id;
  if (focused === "picked" && body.contains($("picked"))) return; // somebody is typing there
  body.innerHTML = view.html; // all text in it is escaped by dashboard/html.py
  for (const place of body.querySelectorAll("[data-chart]")) put(place, view.charts[place.dataset.chart]);
  for (const select of body.querySelectorAll("select")) choose(select, chosen.get(select.id));
  if (view.charts.table) grid = makeGrid(view.charts.table);
  if (focused && body.contains($(focused))) $(focused).focus({ preventScroll: true });
  digests[view.name] = view.digest;
  mark();
}
function put(place, { option, label, height, width, curves: own }) { // existing charts are kept
  const key = place.dataset.chart, item = charts.get(key) ?? { node: span("", "chart") };
  charts.set(key, Object.assign(item, { option, curves: own, stale: true }));
  item.node.dataset.chart = key;
  Object.assign(item.node, { tabIndex: 0, role: "img", ariaLabel: label, style: `height:${height}px;min-width:${width}px` });
  near.observe(item.node);
  place.removeAttribute("data-chart");
  place.replaceChildren(item.node);
}
function choose(select, value) {
  const isThere = [...select.options].some((option) => option.value === value);
  if (isThere) chosen.set(select.id, (select.value = value)); // only keep what was chosen
  const parts = select.closest("label").parentElement.querySelectorAll(":scope > .alternative");
  parts.forEach((part, at) => { part.hidden = at !== select.selectedIndex; });
}
const ask = (path) => fetch(path, { cache: "no-store" }).then(async (answer) => answer.ok ? answer.json() : Promise.reject(new Error(await answer.text())));
async function poll() {
  let next = REST_MS;
  try {
    const through = (name) => tables[name]?.through ?? -1, views = Object.values(digests).join(",");
    const known = new URLSearchParams({ trials: through("trials"), buckets: through("buckets"), spans: through("spans"), views });
    const sent = report ? report.studies[study] : document.hidden ? { state: "unseen" } : await ask(`studies/${study}?${known}`);
    if (sent.views) apply(sent);
    if (sent.state !== "finished") next = POLL_MS;
    $("trouble").textContent = "";
  } catch (error) { $("trouble").textContent = `No news: ${error.message}`; }
  if (!report) setTimeout(poll, next);
}
async function start() {
  const dark = matchMedia("(prefers-color-scheme: dark)"), root = document.documentElement;
  const theme = (isDark) => {
    [root.dataset.theme, $("theme").ariaPressed] = [isDark ? "dark" : "light", isDark];
    restale();
  };
  [dark.onchange, window.onresize] = [() => theme(dark.matches), () => restale()];
  $("theme").onclick = () => theme(root.dataset.theme !== "dark");
  $("study").onchange = ({ target }) => { location.search = `?study=${target.selectedIndex}`; };
  $("main").onchange = ({ target }) => {
    if (target.id === "picked") {
      select((target.value.match(/\d+/g) ?? []).map(Number));
      target.value = [...selected].join(" ");
    }
    if (target.className === "choice") choose(target, target.value);
  };
  $("main").onclick = ({ target }) => {
    if (target.dataset.trial) toggle(Number(target.dataset.trial));
    if (target.dataset.reset) unzoom(charts.get(target.dataset.reset));
  };
  window.onpageshow = () => { $("study").selectedIndex = study; }; // browsers keep another choice when one goes back
  theme(dark.matches);
  if ($("report")) {
    const bytes = Uint8Array.from(atob($("report").textContent), (letter) => letter.charCodeAt(0));
    report = await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
  }
  poll();
}
start();
