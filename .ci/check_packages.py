"""Check what a wheel and a source distribution hold: `check_packages.py FILE...`."""

import sys
import tarfile
import zipfile

WANTED = (
    "django_statestore/__init__.py",
    "django_statestore/py.typed",
    "django_statestore/migrations/0001_initial.py",
    "django_statestore/testing/conformance/README.md",
)
STRANGERS = ("tests/", "testproject/", ".ci/", "manage.py")


def names(path: str) -> list[str]:
    """List the files of a package, without the folder that holds those of a source distribution."""
    if path.endswith(".whl"):
        return zipfile.ZipFile(path).namelist()
    return [name.partition("/")[2] for name in tarfile.open(path).getnames()]


def main() -> int:
    faults = []
    for path in sys.argv[1:]:
        found = names(path)
        faults += [f"{path} lacks {name}" for name in WANTED if name not in found]
        faults += [f"{path} holds {name}" for name in found if name.startswith(STRANGERS)]
    print("\n".join(faults) or f"{len(sys.argv) - 1} packages hold what they should")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
