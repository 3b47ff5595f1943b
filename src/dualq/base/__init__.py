"""What knows nothing of decision problems: errors, words, labels, files, kernels, rows of transitions.

Anything may use it, and it uses nothing of dualq.

errors       one family of exceptions; a message names the value, where it stands, and what would be right
door         a call with an argument of the wrong kind is refused in one line
wording      numbers and names in sentences
labels       labels of states and actions <-> indices
numbers      numbers, ranges and weights as users give them, checked
files        arrays on disk: whole or not at all, checked, never unpickled
spreadsheets CSV for people, of which no text becomes a formula
kernels      the one decorator of compiled kernels, and random numbers inside them
workers      independent work side by side, which Ctrl-C stops at once
transitions  rows as algorithms read them, a chunk at a time
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dualq.base.faces import face

if TYPE_CHECKING:
    from dualq.base import errors as errors
    from dualq.base.errors import CheckpointError as CheckpointError
    from dualq.base.errors import DualqError as DualqError
    from dualq.base.errors import ErrorParts as ErrorParts
    from dualq.base.errors import InfeasibleError as InfeasibleError
    from dualq.base.errors import LabelError as LabelError
    from dualq.base.errors import LogError as LogError
    from dualq.base.errors import ModelError as ModelError
    from dualq.base.errors import about as about
    from dualq.base.files import Json as Json
    from dualq.base.files import Tagged as Tagged
    from dualq.base.files import arrays_in as arrays_in
    from dualq.base.files import as_json_array as as_json_array
    from dualq.base.files import from_json_array as from_json_array
    from dualq.base.files import is_running as is_running
    from dualq.base.files import load_arrays as load_arrays
    from dualq.base.files import locked as locked
    from dualq.base.files import save_arrays as save_arrays
    from dualq.base.files import verified as verified
    from dualq.base.files import write_whole as write_whole
    from dualq.base.files import written_aside as written_aside
    from dualq.base.files import written_together as written_together
    from dualq.base.front_door import door as door
    from dualq.base.kernels import advance as advance
    from dualq.base.kernels import below as below
    from dualq.base.kernels import bits as bits
    from dualq.base.kernels import copy_into as copy_into
    from dualq.base.kernels import generator_state as generator_state
    from dualq.base.kernels import kernel as kernel
    from dualq.base.kernels import uniform as uniform
    from dualq.base.kernels import unsigned as unsigned
    from dualq.base.labels import Label as Label
    from dualq.base.labels import LabelLike as LabelLike
    from dualq.base.labels import Labels as Labels
    from dualq.base.labels import LabelsLike as LabelsLike
    from dualq.base.labels import as_labels as as_labels
    from dualq.base.numbers import LARGEST as LARGEST
    from dualq.base.numbers import Weights as Weights
    from dualq.base.numbers import as_distribution as as_distribution
    from dualq.base.numbers import checked_interval as checked_interval
    from dualq.base.numbers import checked_number as checked_number
    from dualq.base.numbers import checked_numbers as checked_numbers
    from dualq.base.numbers import checked_range as checked_range
    from dualq.base.numbers import checked_weights as checked_weights
    from dualq.base.numbers import checked_whole as checked_whole
    from dualq.base.numbers import weight_error as weight_error
    from dualq.base.places import Places as Places
    from dualq.base.places import as_numbers as as_numbers
    from dualq.base.places import column_of as column_of
    from dualq.base.places import distinct as distinct
    from dualq.base.spreadsheets import csv_text as csv_text
    from dualq.base.spreadsheets import unguarded as unguarded
    from dualq.base.state_columns import StateColumns as StateColumns
    from dualq.base.state_columns import States as States
    from dualq.base.transitions import WALK_STREAM as WALK_STREAM
    from dualq.base.transitions import Arrays as Arrays
    from dualq.base.transitions import PlaceT as PlaceT
    from dualq.base.transitions import Recorded as Recorded
    from dualq.base.transitions import RecordedState as RecordedState
    from dualq.base.transitions import Rows as Rows
    from dualq.base.transitions import Stream as Stream
    from dualq.base.transitions import as_whole as as_whole
    from dualq.base.wording import count as count
    from dualq.base.wording import few as few
    from dualq.base.wording import nearest as nearest
    from dualq.base.wording import number as number
    from dualq.base.wording import outwards as outwards
    from dualq.base.wording import p_value as p_value
    from dualq.base.wording import pip_install as pip_install
    from dualq.base.wording import sentence as sentence
    from dualq.base.wording import small as small
    from dualq.base.wording import visible as visible
    from dualq.base.wording import with_error as with_error
    from dualq.base.workers import Begin as Begin
    from dualq.base.workers import one_by_one as one_by_one
    from dualq.base.workers import silent as silent
    from dualq.base.workers import threads as threads
    from dualq.base.workers import together as together

__getattr__, __dir__, __all__ = face(__name__, __file__)
