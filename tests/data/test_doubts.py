"""What is said of data that a study can run on, and hardly means."""

from __future__ import annotations

from sweeper.api import check, run
from sweeper.data.doubts import data_doubts
from sweeper.data.preparation import prepare
from sweeper.progress import Event, Warned

CSV = 'source = "csv"\npath = "rows.csv"\ntarget = "kind"\n'
GOOD = "size,kind\n" + "".join(f"{i},{'Stays' if i % 2 else 'Leaves'}\n" for i in range(12))


def messages(event: Event) -> list[str]:
    return [event.message] if isinstance(event, Warned) else []


def test_classes_of_a_few_rows_are_told_in_quotes(make_study) -> None:
    assert data_doubts(prepare(make_study(CSV, GOOD))) == ()
    assert data_doubts(prepare(make_study(CSV, GOOD + "1,Stays \n"))) == (
        "a class of fewer than 5 rows, which is hardly learnt: 'Stays ' has 1 "
        "(did you mean 'Stays'?); mend the labels, or add rows",
    )
    others = make_study(CSV, GOOD + "1,stays\n2,Lost\n3,Lost\n")
    (told,) = check(others).warnings
    assert told == (
        "classes of fewer than 5 rows, which are hardly learnt: 'Lost' has 2 and 'stays' has 1 "
        "(did you mean 'Stays'?); mend the labels, or add rows"
    )
    seen: list[str] = []
    run(others, observer=lambda event: seen.extend(messages(event)))
    assert seen.count(told) == 1


def test_of_numbers_there_is_nothing_to_say(make_study) -> None:
    config = make_study(CSV.replace('"kind"', '"size"'), GOOD, loss="mse")
    assert data_doubts(prepare(config)) == ()
