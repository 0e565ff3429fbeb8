import time, json
from pathlib import Path
from tests.crash.nursery import *
from tests.processes import Processes
def timed(alias, folder):
    configure()
    points_of(alias, "w", Ledger(folder/"w"))
    out=[]
    def one(i):
        t0=time.perf_counter(); c0=time.process_time()
        connections[alias].ensure_connection(); t1=time.perf_counter()
        travel(alias, "x", Ledger(folder/f"k{i}"), CrashPoints())
        (folder/"a").write_text(json.dumps([t1-t0, time.perf_counter()-t1, time.process_time()-c0]))
    for i in range(15):
        t=time.perf_counter()
        fork(lambda: one(i))
        out.append([*json.loads((folder/"a").read_text()), time.perf_counter()-t])
    return out
def test_t(processes: Processes, alias: str, tmp_path: Path):
    for r in processes.start(timed, alias, tmp_path).result(): print(["%.1f"%(x*1000) for x in r])
