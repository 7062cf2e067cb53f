"""The tests of cronguard: real stores, real processes, no mocks of our own rooms."""
