"""The texts of the sheet: every language has each of them, and what is wrong with a file of texts is said."""

from __future__ import annotations

import ast
import re
import tomllib
from importlib import resources
from pathlib import Path

import msgspec
import pytest
from record_samples import RUN, make_row, plan_of

from pytest_netperf.errors import ConfigError
from pytest_netperf.judge.judgement import Measured, judge
from pytest_netperf.judge.limits import ResolvedLimit
from pytest_netperf.judge.verdict import DeviceVerdict, Verdict
from pytest_netperf.quantities import quantities
from pytest_netperf.record.ledger import build_sheets
from pytest_netperf.report.form import SheetForm
from pytest_netperf.report.html_page import sheet_html
from pytest_netperf.report.language import known_languages, load_words

ENGLISH = load_words("en")
BUILT_IN = resources.files("pytest_netperf.report") / "words"
LETTERS = re.compile("[A-Za-z]{3,}")


def test_english_and_japanese_are_built_in():
    assert known_languages() == ["en", "ja"]


@pytest.mark.parametrize("language", known_languages())
def test_each_language_has_each_text_with_the_same_places(language):
    words = load_words(language)  # which refuses a file that lacks one
    assert words.texts.keys() == ENGLISH.texts.keys()
    assert all(text.strip() for text in words.texts.values())
    for verdict in (*Verdict, *DeviceVerdict):
        section = "row" if isinstance(verdict, Verdict) else "device"
        assert {f"{section}.{verdict.value}.{part}" for part in ("word", "meaning", "step")} <= words.texts.keys()


def test_each_text_is_used_and_each_that_is_used_is_there():
    """Keys that a program puts together (of verdicts, quantities, facts ...) count as used by their section."""
    sources = [
        path.read_text("utf-8")
        for folder in ("", "templates")
        for path in (resources.files("pytest_netperf.report") / folder).iterdir()
        if path.name.endswith((".py", ".j2", ".typ"))
    ]
    text = "\n".join(sources)
    named = set(re.findall(r"""\bw(?:ords)?\((?:f?["'])([a-z_]+\.[a-z_]+)["']""", text))
    named |= set(re.findall(r"""\.at\("([a-z_]+\.[a-z_]+)"\)""", text))
    assert len(named) > 40
    assert named - ENGLISH.texts.keys() - {"sheet.json"} == set()
    sections = "row|device|quantity|facts|certificate|deviation|rows|method|legend|sign|notes|plot|tables|runs|"
    put_together = re.compile(rf"({sections}repeated|uncertainty|reference|sweep)[.]")
    unused = {key for key in ENGLISH.texts if key not in named and not put_together.match(key)}
    assert {key for key in unused if key not in text} == set()


def test_our_quantities_have_names():
    ours = {each.name for each in quantities() if f"quantity.{each.name}" in ENGLISH.texts}
    assert len(ours) == sum(key.startswith("quantity.") for key in ENGLISH.texts) >= 17


def test_the_sheet_is_in_its_language():
    rows = [make_row("p1"), make_row("p2", Verdict.FAIL, 1.897e9)]
    (sheet,) = build_sheets(RUN, plan_of(rows), rows, complete=True)
    page = sheet_html(sheet, form=SheetForm(language="ja")).decode()
    assert '<html lang="ja">' in page
    for said in ("不合格", "スループット", "適合性の表明", "合格しなかった項目と次の処置", "REJECTED"):
        assert said in page
    body = re.sub(r"<style>.*?</style>|<[^>]+>", " ", page, flags=re.DOTALL)
    english = {text for text in ENGLISH.texts.values() if len(text) > 25 and "{" not in text and text in body}
    assert english == set()


def sentences_of(language):
    return tomllib.loads((BUILT_IN / f"{language}.toml").read_text("utf-8"))["sentences"]


def test_each_translated_sentence_is_one_that_the_package_writes():
    """Every part between its places stands in the source: who changes the English hears that there is a translation."""
    written: list[str] = []
    for path in Path(str(resources.files("pytest_netperf"))).rglob("*.py"):
        written += [
            node.value
            for node in ast.walk(ast.parse(path.read_text("utf-8")))
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        ]
    text = "\0".join(written)
    put_together = (
        r"\{\w+\}|required rows?|\brows?\b|\b(?:was|were|is|are|short|over)\b|; the first|passed|\b1\b|^All|^The"
    )
    for english in sentences_of("ja"):
        for part in re.split(put_together, english):
            if len(part.strip(" .:;,()")) > 5:
                assert part.strip(" .:;,()") in text, f"nobody writes {part!r} of {english!r}"


def test_sentences_of_the_record_are_in_the_language_of_the_sheet():
    """Real ones, of the judge and the ledger; with the numbers and names that stand in them."""
    measured = Measured(quantity="power", unit="W", better="lower", value=16.0, trusted=True)
    verdict = judge(measured, ResolvedLimit(quantity="power", low=None, high=15.0, text="<= 15 W"))
    rows = [
        make_row("p1", verdict.verdict, 16.0, quantity="power", unit="W", reason=verdict.reason,
                 next_step=verdict.next_step, limit="<= 15 W", limit_high=15.0, limit_low=None, margin=-0.0667),
        make_row("p2"),
    ]  # fmt: skip
    (sheet,) = build_sheets(RUN, plan_of([*rows, make_row("p3")]), rows, complete=False)
    japanese = load_words("ja").sentence
    with_note = [row for row in sheet.rows if row.verdict is not Verdict.PASS]
    for text in (sheet.sentence, *(each for row in with_note for each in (row.reason, row.next_step or ""))):
        assert japanese.knows(text), text
        assert not re.search(r"\b(required|row|allowed|again|the)\b", japanese(text)), japanese(text)
    assert japanese(verdict.reason) == "16 W は許容値 15 W を上回ります(6.67 % 超過)。"
    assert japanese("temperature was never measured.") == "温度 は測定されませんでした。"
    page = sheet_html(sheet, form=SheetForm(language="ja")).decode()
    assert "16\u00a0W は許容値 15\u00a0W を上回ります" in page or "16 W は許容値" in page
    assert "英語の文は、記録のまま" not in page
    odd = msgspec.structs.replace(sheet, rows=(msgspec.structs.replace(sheet.rows[0], reason="Something new."),))
    page = sheet_html(odd, form=SheetForm(language="ja")).decode()
    assert "Something new." in page
    assert "英語の文は、記録のまま" in page
    assert load_words("en").sentence(verdict.reason) == verdict.reason


def test_an_unknown_language_is_refused():
    with pytest.raises(ConfigError, match="no texts in language 'jp'; known: en, ja"):
        load_words("jp")


@pytest.fixture
def own(tmp_path):
    (tmp_path / "words").mkdir()

    def write(name, change):
        text = (BUILT_IN / "en.toml").read_text("utf-8")
        (tmp_path / "words" / f"{name}.toml").write_text(change(text))
        load_words.cache_clear()
        return tmp_path

    return write


def test_another_language_is_one_file(own):
    folder = own("nl", lambda text: text.replace('title = "Acceptance sheet of a network device"', 'title = "Keuring"'))
    assert known_languages(folder) == ["en", "ja", "nl"]
    (sheet,) = build_sheets(RUN, plan_of([make_row()]), [make_row()], complete=True)
    page = sheet_html(sheet, form=SheetForm(language="nl", templates=folder)).decode()
    assert '<html lang="nl">' in page
    assert "Keuring" in page


def test_a_text_is_escaped_like_any_other(own):
    folder = own("en", lambda text: text.replace("Serial number", "<script>x</script>"))
    (sheet,) = build_sheets(RUN, plan_of([make_row()]), [make_row()], complete=True)
    page = sheet_html(sheet, form=SheetForm(templates=folder)).decode()
    assert "&lt;script&gt;x" in page
    assert "<script" not in page


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda text: text.replace('model = "Model"\n', "", 1), "xx.toml: has no text for facts.model"),
        (lambda text: text.replace("[facts]", '[facts]\nmodle = "M"'), "texts that no sheet shows: facts.modle"),
        (lambda text: text.replace("{page}", "{pag}"), "has other {places} than en.toml in sheet.page"),
        (lambda text: text.replace('model = "Model"', "model = 7", 1), "facts.model must be a text, not 7"),
        (lambda text: text + "[", "cannot read these texts"),
    ],
)
def test_what_is_wrong_with_a_file_of_texts_is_said(own, change, says):
    with pytest.raises(ConfigError) as error:
        load_words("xx", own("xx", change))
    assert says in str(error.value)


def test_a_quantity_of_the_users_own_keeps_its_name():
    row = msgspec.structs.replace(make_row(), quantity="fan_noise", unit="dB", value=31.0, limit=None, ceiling=None)
    (sheet,) = build_sheets(RUN, plan_of([row]), [row], complete=True)
    assert "fan noise" in sheet_html(sheet, form=SheetForm(language="ja")).decode()
