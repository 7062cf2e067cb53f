"""The laboratory: every fault at every moment, against real servers, judged by a witness outside the product.

    python -m tests.faults.lab [--rounds 20] [--only FAULT[/MOMENT]] [--seed N]

prints the table of docs/guarantees.md.

scene.py   where it happens: a ledger, the ways to it, two hosts
faults.py  what can go wrong, each struck and healed
batch.py   some keys, each held at its moment, one fault for all of them, and what the witness says
lab.py     the table; a bounded share of it is test_cells.py
mutants.py each rule taken away, and the test that must miss it

The other tests here each take one fault that the table has no room for: a local ledger that is gone, damaged or locked,
no room for a file, a process or a connection, packets that are lost, clocks and ages, poolers.
"""
