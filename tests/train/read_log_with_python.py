"""Reads a log as its users do. Arguments: path of the log, "live" or "closed". Exits with 77 where a package is missing."""

import sys

try:
    import h5netcdf
    import h5py
    import numpy as np
    import xarray as xr
    import netCDF4  # noqa: F401
except ImportError as error:
    print(error)
    sys.exit(77)

GROUPS = {
    "train": {"loss": ("step",), "tokens": ("step",), "wall_time": ("step",)},
    "layers": {"grad_norm": ("step", "layer", "kind"), "update_ratio": ("step", "layer", "kind")},
    "stem": {"grad_norm": ("step", "kind")},
    "residual": {"grad_norm": ("step", "depth"), "rms": ("step", "depth")},
    "attention": {"entropy": ("step", "layer", "head"), "max_logit": ("step", "layer", "head")},
    "eval": {"loss": ("step", "length"), "loss_by_position": ("step", "length", "position")},
    "run": {"status": ("entry",)},
}


def formula(step, column, index):
    return np.float32(step % 100000) + np.float32(0.125 * column) + np.float32(0.015625 * (index % 8))


def check(dataset, group, status):
    for name, dims in GROUPS[group].items():
        assert dataset[name].dims == dims, (group, name, dataset[name].dims)
        assert dataset[name].attrs["units"] and dataset[name].attrs["long_name"], (group, name)
        for dim in dims:
            assert dim in dataset.coords, (group, name, dim)
    if group == "layers":
        assert list(dataset.kind.values) == ["attention_norm", "attention.query", "ffn.down", "block"]
        assert list(dataset.layer.values) == [0, 1, 2]
        assert list(dataset.step.values) == list(range(3, 61, 3))
        value = dataset.grad_norm.sel(step=30, layer=1, kind="ffn.down")
        assert value == formula(30, 6, 1 * 4 + 2), value
        frame = dataset.grad_norm.sel(kind="block").to_dataframe()
        assert len(frame) == 20 * 3
    if group == "train":
        assert len(dataset.step) == 60
        assert dataset.loss.sel(step=60) == formula(60, 0, 0)
    if group == "run":
        assert dataset.status.values.tolist() == [status], dataset.status
        assert dataset.entry.values.tolist() == [17]


def main():
    path, mode = sys.argv[1:]
    if mode == "live":
        with h5py.File(path, "r", swmr=True) as file:
            assert file.attrs["schema"] == "ropewalk-log" and file.attrs["schema_version"] == 1
            assert len(file["train/step"]) == 60
            assert file["layers/grad_norm"].dims[2][0].name == "/layers/kind"
        for group in GROUPS:
            with h5netcdf.File(path, "r", swmr=True, decode_vlen_strings=True) as file:
                store = xr.backends.H5NetCDFStore(file, group=group)
                check(xr.open_dataset(store), group, status=0)
            # What xarray makes of the bytes of the file as they are now.
            with open(path, "rb") as file, xr.open_dataset(file, engine="h5netcdf", group=group) as dataset:
                check(dataset, group, status=0)
    else:
        for engine in ("netcdf4", "h5netcdf"):
            for group in GROUPS:
                with xr.open_dataset(path, group=group, engine=engine) as dataset:
                    check(dataset, group, status=int(mode))


main()
