"""A language's name or tag gives its primary subtag."""

from realtime_tts.text.languages import NAME_OF_SUBTAG, SUBTAG_OF_NAME, primary_language


def test_names_and_tags_have_one_primary_subtag() -> None:
    for language in ("English", "en", "EN-us", "en_GB", "english"):
        assert primary_language(language) == "en", language
    assert primary_language("zh-Hant_TW") == "zh"


def test_an_unknown_language_is_its_first_part() -> None:
    assert [primary_language(each) for each in ("xx-YY", "Klingon", "und", "")] == ["xx", "klingon", "und", ""]


def test_every_name_leads_to_its_subtag_and_back() -> None:
    for subtag, name in NAME_OF_SUBTAG.items():
        assert primary_language(name) == SUBTAG_OF_NAME[name] == subtag
