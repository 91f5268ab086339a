"""Runs the python blocks of a Markdown page in order, as a reader would paste them. Argument: the page. Exits with 77
where a package is missing."""

import os
import re
import sys

os.environ["MPLBACKEND"] = "Agg"
try:
    import h5netcdf, h5py, matplotlib, netCDF4, pandas, scipy, xarray  # noqa: E401,F401
except ImportError as error:
    print(error)
    sys.exit(77)

with open(sys.argv[1], encoding="utf-8") as file:
    blocks = re.findall(r"^```python\n(.*?)^```$", file.read(), flags=re.DOTALL | re.MULTILINE)
assert blocks, "no python block"
names = {"__name__": "page"}
for number, block in enumerate(blocks, 1):
    exec(compile(block, f"block {number} of {sys.argv[1]}", "exec"), names)
print(f"ran {len(blocks)} blocks")
