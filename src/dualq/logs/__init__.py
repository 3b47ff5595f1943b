"""What was recorded: a log as it is read, counted, checked, and handed on.

log              what every log offers, of whatever kind
array_log        a log in arrays
table_log        one that stays where it lies (a file, a database) and is counted there
counts, blocks   how often each (s, a, s') occurs and what it paid; the same, cut in time order
support          the states of a log beside those of its model
starts, stream   where value is measured; the rows in time order, in chunks
reading          from any source to rows: formats, columns, times, bins, episodes, bad rows, `look`
checks           does the log agree with the way it was read? coverage, drift, memory, ends, gaps, bins, returns
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dualq.base.faces import face

if TYPE_CHECKING:
    from dualq.logs.array_log import ArrayLog as ArrayLog
    from dualq.logs.blocks import BORDERS as BORDERS
    from dualq.logs.blocks import FIRSTS as FIRSTS
    from dualq.logs.blocks import MOST_SORTED as MOST_SORTED
    from dualq.logs.blocks import counts_in_blocks as counts_in_blocks
    from dualq.logs.blocks import first_of as first_of
    from dualq.logs.checks.between import between as between
    from dualq.logs.checks.between_numbers import between_numbers as between_numbers
    from dualq.logs.checks.bins import inside_cells as inside_cells
    from dualq.logs.checks.coverage import Coverage as Coverage
    from dualq.logs.checks.findings import Finding as Finding
    from dualq.logs.checks.numbers import number_checks as number_checks
    from dualq.logs.checks.returns import returns_of as returns_of
    from dualq.logs.checks.trace import Trace as Trace
    from dualq.logs.counts import Counts as Counts
    from dualq.logs.counts import all_counts as all_counts
    from dualq.logs.log import Log as Log
    from dualq.logs.number_rows import NumberRows as NumberRows
    from dualq.logs.open_ends import OpenEnds as OpenEnds
    from dualq.logs.reading.again import open_ends_of as open_ends_of
    from dualq.logs.reading.again import reading_of as reading_of
    from dualq.logs.reading.auto_bins import roundest as roundest
    from dualq.logs.reading.look import look as look
    from dualq.logs.reading.looked import HEADER as HEADER
    from dualq.logs.reading.looked import Look as Look
    from dualq.logs.reading.looked import lines_of as lines_of
    from dualq.logs.reading.options import READING as READING
    from dualq.logs.reading.options import ActionBins as ActionBins
    from dualq.logs.reading.options import Argument as Argument
    from dualq.logs.reading.options import BinsAsked as BinsAsked
    from dualq.logs.reading.options import Columns as Columns
    from dualq.logs.reading.options import Moment as Moment
    from dualq.logs.reading.options import OneColumn as OneColumn
    from dualq.logs.reading.preview import bad_rows as bad_rows
    from dualq.logs.reading.preview import first_rows as first_rows
    from dualq.logs.reading.preview import histogram as histogram
    from dualq.logs.reading.preview import rows_behind as rows_behind
    from dualq.logs.reading.read_log import read_log as read_log
    from dualq.logs.reading.rewriting import rewrite as rewrite
    from dualq.logs.reading.schema import ROW as ROW
    from dualq.logs.reading.schema import Bins as Bins
    from dualq.logs.reading.urls import is_url as is_url
    from dualq.logs.reading.urls import split_table as split_table
    from dualq.logs.reading.urls import without_password as without_password
    from dualq.logs.starts import Start as Start
    from dualq.logs.starts import start_weights as start_weights
    from dualq.logs.support import with_end as with_end
    from dualq.logs.table_log import TableLog as TableLog

__getattr__, __dir__, __all__ = face(__name__, __file__)
