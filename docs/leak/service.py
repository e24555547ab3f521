"""A service that counts words: see docs/observe.md. It never ends."""
import random, threading, time
import counter

def request():
    """One request: a text, its table of words, and how many there are."""
    text = " ".join(random.choice(("slab", "page", "sheaf")) for _ in range(100))
    table = {number: word * 9 for number, word in enumerate(text.split())}
    return len(table), counter.words(text)

def worker():
    while True:
        request()
        time.sleep(0.01)

for _ in range(2):
    threading.Thread(target=worker, daemon=True).start()
print("ready", flush=True)
threading.Event().wait()
