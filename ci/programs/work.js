const m = new Map(); let x = 1;
for (let i = 0; i < 300000; i++) { x = (x * 48271) % 2147483647; m.set(x % 50000, Buffer.alloc(x % 5000, i)); }
let n = 0; for (const b of m.values()) n += b.length + b[0]; console.log(n, JSON.stringify([...m.keys()]).length);
