# Objects, threads, a database, children by exec and by fork.
import json, os, random, sqlite3, subprocess, sys, threading, zlib
random.seed(1)
data = [{"n": i, "s": "x" * random.randrange(500)} for i in range(20000)]
print(zlib.crc32(json.dumps(json.loads(json.dumps(data))).encode()))
totals = []
def work(seed):
    r, kept = random.Random(seed), {}
    for i in range(20000):
        kept[r.randrange(500)] = bytes(r.randrange(3000))
    totals.append(sum(map(len, kept.values())))
threads = [threading.Thread(target=work, args=(s,)) for s in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]
print(sorted(totals))
db = sqlite3.connect(":memory:")
db.execute("create table t (a integer primary key, b text)")
db.executemany("insert into t values (?, ?)", ((i, str(i) * 5) for i in range(20000)))
print(db.execute("select count(*), sum(length(b)) from t where b like '%7%'").fetchone())
print(subprocess.run([sys.executable, "-c", "print('child')"], capture_output=True).stdout)
for i in range(20):
    pid = os.fork()
    if pid == 0:
        os._exit(len([bytes(i) for i in range(2000)]) % 256)
    print(os.waitpid(pid, 0)[1])
