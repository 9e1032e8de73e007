"""Laws that hold for tables of every kind, every verb and every worker.

`laws.py` has the laws, each a function whose name says it; `adapter.py` has the verbs, what cannot be done, and the
only calls of public functions; `tests/kit/kinds.py` has the kinds of tables. `test_threads.py`, `test_executor.py` and
`test_spark.py` run all laws with one worker each. A new law is a function in `laws.py` and its name in ``__all__``; a
new verb is a row of `VERBS`; a new format is a class and rows in the kit.

What cannot be done is a row of `CANNOT`: the law then checks that it is refused with that error and message, and that
nothing changed.

What the laws cover, so that no other test says it once more, for the verbs append, delete, delete_positions,
delete_keys, update, upsert (plain, of a feed, of changes), overwrite, dynamic_partition_overwrite, rewrite_data_files,
compact and transaction:

- the rows after a verb are those of a list, for this package and for another reader; the counts of the result are
  those of the list and of the data files;
- a verb with nothing to do commits nothing and writes no file;
- a dry run changes nothing, and counts and explains what the verb and what threads do;
- a job id is done once, and refused for another verb;
- the properties of a commit are in the history of the table;
- a verb on a branch changes only the branch; Delta refuses `branch`;
- a conflict with another commit is refused and leaves only the files of that commit; with ``on_conflict="merge"`` the
  verb runs on the rows of that commit;
- an interrupt before the commit leaves no file; one while it is sent says what is known;
- rows keep their ids, and new rows get new ones;
- the explanation of a result has all data files and rows of the table.
"""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("tests.laws.adapter", "tests.laws.laws")
