"""Text that a recognizer spells, step by step, and what of it is still there in what was built."""

import numpy as np
import pytest

from edgekit.comparison.ctc import edits, spelled
from edgekit.comparison.meaning import meaning_of
from edgekit.model import Arrays, ValueSpec


def test_text_is_spelled_without_repetitions_and_blanks() -> None:
    classes = [0, 7, 7, 0, 7, 3, 3, 0, 0]
    assert spelled(np.eye(10)[classes], 0) == [7, 7, 3]


@pytest.mark.parametrize(
    ("one", "other", "count"), [("kitten", "sitting", 3), ("flaw", "lawn", 2), ("", "abc", 3), ("abc", "", 3)]
)
def test_edits_are_counted_as_levenshtein_does(one: str, other: str, count: int) -> None:
    assert edits([*map(ord, one)], [*map(ord, other)]) == count


def lines(texts: list[str], late: int = 0) -> list[Arrays]:
    """Softmax of 30 steps over the blank and 26 letters, letters from step 2 + ``late`` on, in every other step."""
    answers = []
    for text in texts:
        classes = np.zeros(30, int)
        for place, letter in enumerate(text):
            classes[2 + late + 2 * place] = ord(letter) - ord("a") + 1
        shares = np.full((1, 30, 27), 0.1 / 26, np.float32)
        shares[0, np.arange(30), classes] = 0.9
        answers.append({"y": shares})
    return answers


def test_text_counts_and_not_the_step_at_which_a_letter_stands() -> None:
    answers = lines(["hello", "world"])
    inputs = (ValueSpec("x", "float32", (1, 3, 32, 120)),)
    meaning = meaning_of(answers, inputs)
    assert meaning is not None
    shifted, spoiled = meaning.anew(), meaning.anew()
    for answer, late, other in zip(answers, lines(["hello", "world"], 1), lines(["hallo", "word"]), strict=True):
        shifted.add(answer, late)
        spoiled.add(answer, other)
    assert (shifted.result().count, shifted.result().wrong) == (10, 0)
    assert spoiled.result().wrong == 2


SOUND = (ValueSpec("pcm", "int16", (1, None)),)
LETTERS = ("<pad>", *(chr(ord("a") + number) for number in range(26)))


def of_sounds(texts: list[str], *, logarithms: bool = True, offset: float = 0.0) -> list[Arrays]:
    """What a recognizer of sounds gives: as many steps as a sound has, the logarithms of probabilities in each."""
    shares = [answer["y"][:, : 4 + 2 * len(text)] for answer, text in zip(lines(texts), texts, strict=True)]
    return [{"y": np.log(each) + np.float32(offset) if logarithms else each} for each in shares]


@pytest.mark.parametrize(
    ("answers", "names"),
    [
        pytest.param(of_sounds(["speech", "of", "sounds"], logarithms=False), (), id="probabilities"),
        pytest.param(of_sounds(["speech", "of", "sounds"]), (), id="logarithms"),
        pytest.param(of_sounds(["speech", "of", "sounds"], offset=3.0), LETTERS, id="logits, the blank is named"),
    ],
)
def test_text_of_sounds_is_read_at_any_number_of_steps(answers: list[Arrays], names: tuple[str, ...]) -> None:
    meaning = meaning_of(answers, SOUND, names=names)
    assert meaning is not None
    for answer in answers:
        blank_is_greater = answer["y"] + np.where(np.arange(27) == 0, np.float32(9), np.float32(0))
        meaning.add(answer, {"y": blank_is_greater})
    told = meaning.result()
    assert (told.kind, told.count, told.wrong) == ("characters", 14, 14)


def test_logits_of_steps_spell_nothing_where_no_blank_is_named() -> None:
    answers = of_sounds(["speech", "of", "sounds"], offset=3.0)
    assert meaning_of(answers, SOUND) is None
    assert meaning_of(answers, SOUND, names=("silence", *LETTERS[1:])) is None


def test_states_of_phones_of_which_several_are_probable_spell_nothing() -> None:
    """An acoustic model for a speech detector: as text, but silence is no blank, and no state has most of a step."""
    answers = lines(["hello", "world"])
    vague = [{"y": np.where(answer["y"] > 0.5, 0.3, 0.7 / 26).astype(np.float32)} for answer in answers]
    assert meaning_of(vague, SOUND) is None
    assert meaning_of(vague, SOUND, names=LETTERS) is not None
    assert meaning_of(answers, SOUND) is not None
