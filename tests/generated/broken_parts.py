"""Errors in parts, their losses, phases and optimizers."""

from __future__ import annotations

from hypothesis import assume
from hypothesis import strategies as st

from tests.generated.bending import is_searched, pick, put
from tests.generated.breakage import Wrong, breaking
from tests.generated.frames import Draw, Study
from tests.generated.parts import games, turns

TURNS, GAMES = turns(is_trial=False), games(is_trial=False)
OF_PARTS = st.one_of(TURNS, GAMES)
ONE_OF_PARTS = st.one_of(turns(is_trial=True), games(is_trial=True))
ROOM = {"type": "int", "low": 1, "high": 3, "name": "room"}


@breaking(TURNS)
def unknown_name_of_a_part(draw: Draw, study: Study) -> Wrong:
    loss, phase = (pick(draw, [*study["train"][name]]) for name in ("losses", "phases"))
    key, value = draw(
        st.sampled_from(
            [
                (f"model.{pick(draw, [*study['model']])}.input", "nobody"),
                (f"train.losses.{loss}.of", "nobody"),
                (f"train.losses.{loss}.against", "nobody"),
                (f"train.phases.{phase}.trains", ["nobody"]),
                (f"train.phases.{phase}.loss", "nothing"),
                ("train.cycle", [*study["train"]["cycle"], "never"]),
                ("train.warmup", {"phase": "never", "epochs": 2}),
            ]
        )
    )
    assume(key != "train.losses.data.against")  # then no loss would use the data, too
    assume(not key.endswith((".of", ".against")))  # then nothing would determine a size, too
    told = f"{key}.phase" if key == "train.warmup" else key
    assume(not is_searched(study, "train.warmup"))
    return Wrong(put(study, key, value), told)


@breaking(TURNS)
def part_that_feeds_itself(draw: Draw, study: Study) -> Wrong:
    free = [name for name, part in study["model"].items() if "input" not in part]
    name = pick(draw, free)
    return Wrong(put(study, f"model.{name}.input", name), f"model.{name}.input")


@breaking(TURNS)
def phase_that_never_comes(_draw: Draw, study: Study) -> Wrong:
    some = next(iter(study["train"]["phases"].values()))
    return Wrong(put(study, "train.phases.never", {**some, "epochs": 1}), "train.phases.never")


@breaking(TURNS)
def phase_that_trains_what_its_loss_does_not_see(draw: Draw, study: Study) -> Wrong:
    phase = pick(draw, [*study["train"]["phases"]])
    loss = study["train"]["losses"][study["train"]["phases"][phase]["loss"]]
    seen, name = set[str](), loss["of"]
    while name is not None:
        seen.add(name)
        name = study["model"][name].get("input")
    other = pick(draw, [name for name in study["model"] if name not in seen])
    key = f"train.phases.{phase}.trains"
    return Wrong(put(study, key, [loss["of"], other]), key)


@breaking(TURNS)
def twice(draw: Draw, study: Study) -> Wrong:
    phase = pick(draw, [*study["train"]["phases"]])
    key = f"train.phases.{phase}.trains"
    trains = study["train"]["phases"][phase]["trains"]
    return Wrong(put(study, key, [*trains, trains[0]]), key)


@breaking(TURNS)
def nothing_to_train(draw: Draw, study: Study) -> Wrong:
    key = f"train.phases.{pick(draw, [*study['train']['phases']])}.trains"
    key = draw(st.sampled_from([key, "train.cycle"]))
    return Wrong(put(study, key, []), key, True)


@breaking(TURNS)
def size_that_the_data_tell(_draw: Draw, study: Study) -> Wrong:
    key = f"model.{study['train']['losses']['data']['of']}.out_size"
    return Wrong(put(study, key, 17), key)


@breaking(TURNS)
def loss_of_parts_that_is_of_classes(draw: Draw, study: Study) -> Wrong:
    losses = study["train"]["losses"]
    name = pick(draw, [name for name in losses if name != "data"])
    key = f"train.losses.{name}.kind"
    return Wrong(put(study, key, "cross_entropy"), key)


@breaking(OF_PARTS)
def unknown_setting_of_a_part(draw: Draw, study: Study) -> Wrong:
    name = pick(draw, [n for n, part in study["model"].items() if part.get("kind") != "python"])
    key, is_in_schema = draw(
        st.sampled_from([(f"model.{name}.widht", True), (f"model.{name}.layers", True)])
    )
    return Wrong(put(study, key, 3), key, is_in_schema)


@breaking(OF_PARTS)
def setting_beside_parts(_draw: Draw, study: Study) -> Wrong:
    return Wrong(put(study, "model.width", 8), "model.width", True)


@breaking(OF_PARTS)
def optimizer_of_no_part(draw: Draw, study: Study) -> Wrong:
    names = [*study["model"]]
    assume(names[0] in study["optimizer"])
    name = pick(draw, names)
    if draw(st.booleans()):
        return Wrong(put(study, "optimizer.nobody", {"name": "sgd", "lr": 0.1}), "optimizer.nobody")
    del study["optimizer"][name]
    assume(study["optimizer"])
    return Wrong(study, "optimizer")


@breaking(OF_PARTS)
def search_of_no_part(draw: Draw, study: Study) -> Wrong:
    key = draw(st.sampled_from(["model.nobody.width", "model.nobody.depth"]))
    return Wrong(put(study, f"search.{key}", ROOM), f"search.{key}")


@breaking(TURNS)
def search_of_no_phase(draw: Draw, study: Study) -> Wrong:
    key = draw(st.sampled_from(["train.phases.never.epochs", "train.phases.never.lr"]))
    return Wrong(put(study, f"search.{key}", ROOM), f"search.{key}")


@breaking(OF_PARTS)
def search_of_what_is_fixed(draw: Draw, study: Study) -> Wrong:
    name = pick(draw, [*study["model"]])
    keys = [f"model.{name}.{setting}" for setting in ("input", "in_size", "kind", "function")]
    if name in study["optimizer"]:
        keys += [f"optimizer.{name}.{setting}" for setting in ("name", "decay.linear")]
    key = draw(st.sampled_from(keys))
    choices = {"type": "categorical", "choices": [*study["model"]], "name": "same_for_all"}
    return Wrong(put(study, f"search.{key}", choices), f"search.{key}", True)


@breaking(GAMES)
def setting_of_another_objective(draw: Draw, study: Study) -> Wrong:
    uses = {"wgan": "clip", "wgan_gp": "gradient_penalty"}.get(study["train"]["objective"])
    wrong = [name for name in ("clip", "gradient_penalty") if name != uses]
    key = f"train.{pick(draw, wrong)}"
    return Wrong(put(study, key, 0.5), key)


@breaking(GAMES)
def game_of_other_models(draw: Draw, study: Study) -> Wrong:
    assume("generator" in study["model"])
    key, value = draw(
        st.sampled_from(
            [
                ("model.critic.in_size", 3),
                ("model.critic.out_size", 2),
                ("model.generator.input", "critic"),
                ("data.y", "price"),
                ("train.task", "numbers"),
                ("train.objective", "wasserstein"),
            ]
        )
    )
    if key == "train.objective":
        for name in ("clip", "gradient_penalty"):
            study["train"].pop(name, None)
    return Wrong(put(study, key, value), key, key == "train.objective")


@breaking(GAMES)
def no_size_of_noise(_draw: Draw, study: Study) -> Wrong:
    assume("generator" in study["model"])
    del study["model"]["generator"]["in_size"]
    return Wrong(study, "model.generator.in_size")


@breaking(ONE_OF_PARTS)
def class_without_room(draw: Draw, study: Study) -> Wrong:
    """A trial that does not fit its class."""
    own, parts = study["trial"]["class"], study["model"]
    wrong: list[tuple[str, object]] = []
    if own["strategy"] == "padded":
        name = pick(draw, [*own["sizes"]])
        few = {part: size for part, size in own["sizes"].items() if part != name}
        narrow = [parts[name]["width"] - 1, parts[name]["depth"]]
        wrong += [("sizes", {**own["sizes"], "nobody": [4, 1]})]
        wrong += [("sizes", few)] if few else []  # no widths: a class of one width and depth
        wrong += [("sizes", {**few, name: narrow})] if narrow[0] else []
    elif own["strategy"] == "exact":
        wrong += [("sizes", {name: [4, 1] for name in parts}), ("width", 8)]
    assume(wrong)
    key, value = draw(st.sampled_from(wrong))
    return Wrong(put(study, f"trial.class.{key}", value), f"trial.class.{key}")


@breaking(ONE_OF_PARTS)
def class_of_what_cannot_be_padded(_draw: Draw, study: Study) -> Wrong:
    assume(study["trial"]["class"]["strategy"] == "exact")
    assume(all(part.get("depth", 0) == 0 or "function" in part for part in study["model"].values()))
    own = {**study["trial"]["class"], "strategy": "padded", "sizes": {"a": [4, 1]}}
    return Wrong(put(study, "trial.class", own), "trial.class.strategy")
