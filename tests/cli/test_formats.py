"""Texts as numbers and dates, as people write them.

What is expected was written down by hand.
"""

import numpy as np
import pandas as pd
import pytest

from secret_jax.cli.reading import Found, find_dates, find_numbers


def cells(*texts: str) -> pd.Series:
    return pd.Series(texts, dtype=object)


# What people write, what it is, and how it is written.
NUMBERS = {
    "commas": (["24,200", "950", "1,234,567"], [24200, 950, 1234567], ",", "."),
    "apostrophes": (["1'000", "12\u2019345.5"], [1000, 12345.5], "'", "."),
    "blanks": (["1 000", "2\u00a0345 678"], [1000, 2345678], " ", "."),
    "a decimal comma": (["0,43", "12,5", "7"], [0.43, 12.5, 7], "", ","),
    "both, English": (["1,234.5", "2.25"], [1234.5, 2.25], ",", "."),
    "both, German": (["1.234,5", "2,25"], [1234.5, 2.25], ".", ","),
    "dots alone": (["1.234.567", "3"], [1234567, 3], ".", ","),
    "per cent": (["12.3%", "7 %", "0"], [12.3, 7, 0], "", "."),
    "currency": (["$1,000", "$ 20", "-$5.5"], [1000, 20, -5.5], ",", "."),
    "currency behind": (["5,50 €", "12,00 €"], [5.5, 12], "", ","),
    "a unit": (["28 yrs", "3 yrs", "15yrs", "0"], [28, 3, 15, 0], "", "."),
    "a unit of two words": (["1.5 sq m", "2 sq m", "3 sq m"], [1.5, 2, 3], "", "."),
    "a unit with a power": (["80 m²", "95 m²", "7 m²"], [80, 95, 7], "", "."),
    "another minus": (["\u22123", "4"], [-3, 4], "", "."),
    "exponents": (["1e3", "2.5E-2"], [1000, 0.025], "", "."),
}


@pytest.mark.parametrize("kind", NUMBERS)
def test_numbers_as_people_write_them(kind):
    texts, values, thousands, decimal = NUMBERS[kind]
    chosen = find_numbers(cells(*texts)).formats[0]
    assert (chosen.thousands, chosen.decimal) == (thousands, decimal)
    assert chosen.parse(cells(*texts)).tolist() == values


@pytest.mark.parametrize(
    "texts",
    [
        ["2WD", "4WD"],  # two kinds, not two sizes
        ["1st", "2nd", "3rd"],
        ["1Fam", "2fmCon", "3Twn", "Other"],
        ["1.5 km", "800 m", "2 km"],
        ["900", "1.5k", "2k"],
        ["10-20", "20-30", "30-40"],
        ["12:30", "13:45", "1:05"],
        ["A4", "A5", "A6"],
        ["$5", "€5", "$6"],
        ["1.2.3", "1.10.0", "2.0.1"],
    ],
    ids=" ".join,
)
def test_what_only_begins_with_digits_is_no_number(texts):
    assert find_numbers(cells(*texts)) == Found()


def test_numbers_of_any_size_survive_every_format():
    rng = np.random.default_rng(0)
    values = np.round(rng.normal(size=200) * 10.0 ** rng.integers(-2, 9, 200), 2)
    plain = [f"{value:,.2f}" for value in values]
    swapped = str.maketrans(",.", ".,")
    for texts in (plain, [text.translate(swapped) for text in plain]):
        chosen = find_numbers(cells(*texts)).formats[0]
        assert chosen.parse(cells(*texts)).tolist() == values.tolist()


@pytest.mark.parametrize(
    "texts",
    [
        ["50.0k", "12.5k", "1.5k", "50000"],
        ["3 Mio €", "4 Mio €", "5,5 Mio €", "700000"],
        ["27,7 %", "12 %", "30"],
    ],
)
def test_numbers_of_two_scales_are_not_read_as_one(texts):
    formats, nearest = find_numbers(cells(*texts))
    assert formats == ()
    assert nearest is not None
    parsed = nearest.parse(cells(*texts))
    assert parsed.isna().tolist() == [False] * (len(texts) - 1) + [True]


DATES = {
    "2024-02-29": ("ISO8601", "2024-02-29"),
    "2024-02-29 13:05": ("ISO8601", "2024-02-29T13:05"),
    "2024-02-29T13:05:10Z": ("ISO8601", "2024-02-29T13:05:10"),
    "2024-02-29T13:05:10+02:00": ("ISO8601", "2024-02-29T11:05:10"),
    "2024-02-29 3:45 PM": ("%Y-%m-%d %I:%M %p", "2024-02-29T15:45"),
    "2024-02-29 03:45:10PM": ("%Y-%m-%d %I:%M:%S%p", "2024-02-29T15:45:10"),
    "2024/02/29 08:30": ("ISO8601", "2024-02-29T08:30"),
    "29/02/2024": ("%d/%m/%Y", "2024-02-29"),
    "02/29/2024": ("%m/%d/%Y", "2024-02-29"),
    "2/29/24 8:30": ("%m/%d/%y %H:%M", "2024-02-29T08:30"),
    "29-Feb-2024 15:45:10": ("%d-%b-%Y %H:%M:%S", "2024-02-29T15:45:10"),
    "Feb 29, 2024 3:45PM": ("%b %d, %Y %I:%M%p", "2024-02-29T15:45"),
    "29.02.2024": ("%d.%m.%Y", "2024-02-29"),
    "01.02.2024": ("%d.%m.%Y", "2024-02-01"),
    "29-02-2024": ("%d-%m-%Y", "2024-02-29"),
    "February 29, 2024": ("%B %d, %Y", "2024-02-29"),
    "20240229": ("%Y%m%d", "2024-02-29"),
    # Months and quarters begin on their first day.
    "January-2005": ("%B-%Y", "2005-01-01"),
    "Mar 2005": ("%b %Y", "2005-03-01"),
    "2005-03": ("ISO8601", "2005-03-01"),
    "03/2005": ("%m/%Y", "2005-03-01"),
    "2015-Q1": ("ISO8601", "2015-01-01"),
    "2015Q4": ("ISO8601", "2015-10-01"),
    "Q2 2015": ("ISO8601", "2015-04-01"),
}


@pytest.mark.parametrize("text", DATES)
def test_dates_as_people_write_them(text):
    form, expected = DATES[text]
    found = find_dates(cells(text))
    assert [one.form for one in found.formats] == [form]
    assert found.formats[0].parse(cells(text))[0] == pd.Timestamp(expected)


def test_days_and_months_that_may_be_exchanged_are_two_formats_until_one_shows():
    both = {one.form for one in find_dates(cells("01/06/2020", "02/07/2020")).formats}
    assert both == {"%d/%m/%Y", "%m/%d/%Y"}
    only = find_dates(cells("01/06/2020", "02/27/2020")).formats
    assert [one.form for one in only] == ["%m/%d/%Y"]
    assert find_dates(cells("13/27/2020")).formats == ()
    assert find_dates(cells("1999", "3.5", "8:30", "May")).formats == ()
