"""Virtual machines whose power is cut under load, and an account of what was lost.

What is proved differs by device. The *disk* really loses what was not flushed, in any order and by
sectors, so a flush that is missing is found: `--lies` shows that. The *NVDIMM* is a file that the
emulator maps, and the emulator has no processor caches: what was stored is there after the cut,
fenced or not. So a missing fence is not found there; what is: that a log on a real DAX file system,
with real `MAP_SYNC` mappings, is whole after a cut between any two instructions. Stores that get
lost by lines are the matter of the tests with a simulated device (`crates/log`).
"""
