"""Excel workbooks, made by hand."""

from __future__ import annotations

import re
import zipfile
from xml.sax.saxutils import escape

CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff]")  # which XML cannot hold


def letters(place):
    """A, B, ..., Z, AA: the name of a column."""
    return (letters(place // 26 - 1) if place >= 26 else "") + chr(ord("A") + place % 26)


def workbook(path, sheets):
    """An .xlsx file made by hand: the parts that the format (ECMA-376) asks for, and cells written into the rows."""
    kind = "http://schemas.openxmlformats.org"

    def cell(place, value):
        if value is None:
            return ""
        if isinstance(value, bool):
            return f'<c r="{place}" t="b"><v>{int(value)}</v></c>'
        if not isinstance(value, int | float):
            value = CONTROLS.sub("", str(value))
            return f'<c r="{place}" t="inlineStr"><is><t xml:space="preserve">{escape(value)}</t></is></c>'
        return f'<c r="{place}"><v>{value}</v></c>'

    def sheet(table):
        lines = []
        for i, line in enumerate(table, 1):
            cells = "".join(cell(f"{letters(j)}{i}", value) for j, value in enumerate(line))
            lines.append(f'<row r="{i}">{cells}</row>')
        data = f"<sheetData>{''.join(lines)}</sheetData>"
        return f'<worksheet xmlns="{kind}/spreadsheetml/2006/main">{data}</worksheet>'

    listed = [(i, name) for i, name in enumerate(sheets, 1)]
    book = "".join(f'<sheet name="{name}" sheetId="{i}" r:id="rId{i}"/>' for i, name in listed)
    links = "".join(
        f'<Relationship Id="rId{i}" Type="{kind}/officeDocument/2006/relationships/worksheet" '
        f'Target="worksheets/sheet{i}.xml"/>'
        for i, _ in listed
    )
    types = "".join(
        f'<Override PartName="/xl/worksheets/sheet{i}.xml" '
        'ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"/>'
        for i, _ in listed
    )
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{kind}/package/2006/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        '<Override PartName="/xl/workbook.xml" '
        'ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/>'
        f"{types}</Types>",
        "_rels/.rels": f'<Relationships xmlns="{kind}/package/2006/relationships"><Relationship Id="rId1" '
        f'Type="{kind}/officeDocument/2006/relationships/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{kind}/spreadsheetml/2006/main" '
        f'xmlns:r="{kind}/officeDocument/2006/relationships"><sheets>{book}</sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{kind}/package/2006/relationships">{links}'
        "</Relationships>",
    }
    parts |= {f"xl/worksheets/sheet{i}.xml": sheet(sheets[name]) for i, name in listed}
    with zipfile.ZipFile(path, "w") as file:
        for name, text in parts.items():
            file.writestr(name, f'<?xml version="1.0" encoding="UTF-8"?>{text}')
