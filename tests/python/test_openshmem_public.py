"""Public programs of OpenSHMEM, unmodified.

`pytest tests/python/test_openshmem_public.py --openshmem=PATH` compiles and runs those of a checkout of
github.com/openshmem-org/tests-sos.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from test_openshmem import compiled, run

# They need an MPI, or are a part of another.
NOT_RUN = {"hybrid_mpi_mapping_id", "hybrid_mpi_mapping_id_shmem_comm", "mt_lock"}
PARTS = {"mt_lock_test": "mt_lock.c"}


@pytest.mark.limit(3600)
def test_public_programs_run_unmodified(request: pytest.FixtureRequest) -> None:
    checkout = request.config.getoption("--openshmem")
    if checkout is None:
        pytest.skip("no checkout of github.com/openshmem-org/tests-sos was given (--openshmem=PATH)")
    folder = Path(checkout).resolve() / "test"
    sources = [*folder.glob("unit/*.c"), *folder.glob("spec-example/*.c"), *folder.glob("apps/*.c")]
    options = ("-w", "-std=gnu11", f"-I{folder / 'include'}", "-DENABLE_DEPRECATED_TESTS", "-lm", "-pthread")
    failed = {}
    for source in sorted(sources):
        if source.stem in NOT_RUN:
            continue
        part = [str(source.with_name(PARTS[source.stem]))] if source.stem in PARTS else []
        status, output = run(2, compiled(source, *part, *options, name=f"public-{source.stem}"))
        if status != 0:
            failed[source.stem] = output[-1000:]
    assert len(sources) > 100
    assert failed == {}
