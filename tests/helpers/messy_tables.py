"""Tables as people keep them: flats of a German agency, and loans in a workbook."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

TYPES = ["Flat", "FLAT", "flat ", " studio", "Studio"]


def flats(n_rows: int = 600, n_copies: int = 25) -> pd.DataFrame:
    """Cells as text, with copies of some rows at the end."""
    rng = np.random.default_rng(5)
    area = rng.uniform(25, 140, n_rows).round(1)
    rooms = np.clip((area / 25).round() + rng.integers(-1, 2, n_rows), 1, 6)
    district = rng.integers(0, 40, n_rows)
    kind = rng.integers(0, len(TYPES), n_rows)
    year = rng.integers(1900, 2021, n_rows)
    price = area * (3200 + 40 * district + 300 * (year > 1990)) + 20_000 * rooms
    price = (price * rng.normal(1, 0.05, n_rows)).round()
    sold = pd.Timestamp("2019-01-01") + pd.to_timedelta(
        rng.integers(0, 1500, n_rows), "D"
    )
    heating = rng.choice(["Gas", "gas", "district", "unbekannt"], n_rows)
    rooms[rng.choice(n_rows, 14, replace=False)] = -99
    table = pd.DataFrame(
        {
            "Objekt-ID": [f"DE{n:06d}" for n in rng.permutation(n_rows)],
            "Wohnfläche": [f"{value:.1f} m²".replace(".", ",") for value in area],
            "Zimmer": rooms.astype(int).astype(str),
            "Bezirk": [f"Bezirk {n:02d}" for n in district],
            "Typ": [TYPES[n] for n in kind],
            "Heizung": heating,
            "Baujahr": year.astype(str),
            "Verkauft": sold.strftime("%d.%m.%Y"),
            "Maklergebühr": [_euro(value) for value in 0.0357 * price],
            "Kaufpreis": [_euro(value) for value in price],
        }
    )
    return pd.concat([table, table.iloc[:n_copies]], ignore_index=True)


def _euro(value: float) -> str:
    return f"{value:,.0f} €".replace(",", ".")


def write_flats(path: Path, **how) -> Path:
    """The flats as Excel in Germany writes CSV."""
    flats(**how).to_csv(path, sep=";", index=False, encoding="utf-8-sig")
    return path


def loans(n_rows: int = 300) -> pd.DataFrame:
    """Debts, incomes and whether a loan was denied."""
    rng = np.random.default_rng(6)
    debt, income = rng.normal(size=(2, n_rows)).round(3)
    denied = rng.random(n_rows) < 1 / (1 + np.exp(2 - 2 * debt + income))
    return pd.DataFrame(
        {"debt": debt, "income": income, "Denied?": np.where(denied, "yes", "no")}
    )


def write_loans(path: Path) -> Path:
    """A workbook with notes on its first sheet, and a title above the header."""
    with pd.ExcelWriter(path, engine="openpyxl") as book:
        notes = pd.DataFrame({"Notes": ["ask Anna", "not for others"]})
        notes.to_excel(book, sheet_name="Notes", index=False)
        loans().to_excel(book, sheet_name="Data", index=False, startrow=2)
        book.sheets["Data"]["A1"] = "Loans 2024"
    return path
