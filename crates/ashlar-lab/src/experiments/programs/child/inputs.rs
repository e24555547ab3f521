//! The inputs of the real programs, the same in every run.

use core::fmt::Write;

use crate::kit::random::Rng;

/// Lines of words, some of them frequent.
pub(crate) fn text(lines: usize) -> String {
    let mut rng = Rng::new(100);
    let mut text = String::new();
    for _ in 0..lines {
        for _ in 0..2 + rng.below(8) {
            let _ = write!(text, "{:x} ", rng.skewed(16, 1 << 24));
        }
        text.push('\n');
    }
    text
}

/// A C file of `functions` functions with loops, switches and structures.
pub(crate) fn c_file(functions: usize) -> String {
    let mut rng = Rng::new(101);
    let mut text = String::from("struct node { struct node *next; long key, value; char name[16]; };\n");
    for number in 0..functions {
        let _ = write!(text, "long f{number}(struct node *n, long *a, long x) {{\n  long s = {};\n", rng.below(100));
        let _ =
            writeln!(text, "  for (long i = 0; i < x; i++) {{\n    switch ((i + n->key) % {}) {{", 3 + rng.below(9));
        for case in 0..3 + rng.below(6) {
            let (by, mask) = (1 + rng.below(30), rng.below(4096));
            let _ =
                writeln!(text, "    case {case}: s += (a[i] ^ {mask}) * {by}; a[i] = s >> {}; break;", rng.below(9));
        }
        text += "    default: s ^= n->value + i;\n    }\n    if (n->next) n = n->next;\n  }\n";
        for _ in 0..4 + rng.below(8) {
            let (low, add) = (rng.below(16), rng.below(1000));
            let _ = writeln!(text, "  for (int j = 0; j < 64; j++) a[j] = a[(j + {low}) & 63] * s + {add};");
        }
        let callee = rng.below(number + 1);
        let _ = writeln!(text, "  return s > {} ? s : f{callee}(n, a, x / 2) + s;\n}}", rng.below(1_000_000));
    }
    text
}

/// A program for sqlite3 about `rows` rows.
pub(crate) fn sql(rows: usize) -> String {
    format!(
        "CREATE TABLE item(id INTEGER PRIMARY KEY, kind INTEGER, name TEXT, price REAL);\n\
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})\n\
         INSERT INTO item SELECT i, i * 7919 % 101, 'item ' || (i * 104729 % {rows}), i % 977 / 10.0 FROM n;\n\
         CREATE INDEX item_name ON item(name);\n\
         CREATE INDEX item_kind ON item(kind, price);\n\
         SELECT kind, count(*), sum(price), min(name), group_concat(id % 10, '') FROM item GROUP BY kind ORDER BY kind;\n\
         SELECT count(*) FROM item a JOIN item b ON a.name = b.name AND a.id <= b.id;\n\
         UPDATE item SET name = upper(name) || '-' || kind WHERE id % 3 = 0;\n\
         DELETE FROM item WHERE kind % 5 = 0;\n\
         SELECT name, price FROM item ORDER BY price DESC, name LIMIT 500;\n\
         SELECT count(DISTINCT substr(name, 6, 3)), total(length(name)) FROM item;\n"
    )
}

/// Commits for `git fast-import`, each of which changes some of 40 files.
pub(crate) fn git_stream(commits: usize) -> String {
    let mut rng = Rng::new(102);
    let mut files: Vec<Vec<String>> = (0..40).map(|file| vec![format!("file {file}")]).collect();
    let mut text = String::new();
    for commit in 0..commits {
        let message = format!("Change number {commit}");
        let _ = writeln!(text, "commit refs/heads/main\ncommitter A <a@example.org> {} +0000", 1_600_000_000 + commit);
        let _ = writeln!(text, "data {}\n{message}", message.len());
        for _ in 0..1 + rng.below(6) {
            let file = rng.below(files.len());
            let lines = &mut files[file];
            for _ in 0..1 + rng.below(12) {
                let line = format!("{:x} {:x} = {}", rng.below(1 << 20), rng.below(1 << 30), rng.below(1000));
                let at = rng.below(lines.len());
                if rng.below(3) == 0 {
                    lines[at] = line;
                } else {
                    lines.insert(at, line);
                }
            }
            let content = lines.join("\n");
            let _ = writeln!(text, "M 100644 inline dir{}/file{file}.txt\ndata {}\n{content}", file % 5, content.len());
        }
    }
    text
}

/// For python3.
pub(crate) const PYTHON: &str = r#"
import json, sys

class Item:
    def __init__(self, number):
        self.number, self.name, self.parts = number, "item%d" % number, [number % 7, str(number)]

total = 0
for turn in range(int(sys.argv[1])):
    items = [Item(n) for n in range(6000)]
    names = {item.name: item for item in items}
    groups = {}
    for item in items:
        groups.setdefault(item.number % 97, []).append((item.name, item.parts))
    text = json.dumps({str(k): v for k, v in groups.items()})
    back = json.loads(text)
    words = text.split(",")
    total += sum(len(word) for word in sorted(set(words)))
    total += sum(names[pair[0]].number for group in back.values() for pair in group)
    longs = [3 ** (n % 200) for n in range(4000)]
    total = (total + sum(longs)) % (1 << 61)
print(total)
"#;

/// For perl.
pub(crate) const PERL: &str = r#"
use strict; use warnings;
my ($seed, $total) = (1, 0);
sub next_number { $seed = ($seed * 1103515245 + 12345) % 2147483648; return $seed >> 8; }
for my $turn (1 .. $ARGV[0]) {
    my (%count, @lines);
    for (1 .. 2000) {
        push @lines, join(" ", map { "w" . next_number() % 3000 } 1 .. 10);
    }
    for my $line (@lines) {
        my @words = split / /, $line;
        for my $word (@words) { $count{$word}++; push @{$count{"at:$word"}{list}}, length $line; }
    }
    my @sorted = sort { $a cmp $b } keys %count;
    my $joined = join ",", map { /^at/ ? scalar @{$count{$_}{list}} : $count{$_} } @sorted;
    $joined =~ s/(\d+),(\d+)/$2:$1/g;
    $total = ($total * 31 + unpack("%32C*", $joined)) % 4294967296;
}
print "$total\n";
"#;

/// For lua.
pub(crate) const LUA: &str = r#"
local turns, total = tonumber(arg[1]), 0
local function tree(depth)
  if depth == 0 then return {} end
  return {tree(depth - 1), tree(depth - 1)}
end
local function count(node) return node[1] and 1 + count(node[1]) + count(node[2]) or 1 end
for turn = 1, turns do
  total = total + count(tree(14))
  local words, list = {}, {}
  for i = 1, 20000 do
    local word = "word" .. (i * 7919 % 5003)
    words[word] = (words[word] or 0) + 1
    list[#list + 1] = word .. ":" .. i
  end
  table.sort(list)
  local joined = table.concat(list, " ")
  for key, value in joined:gmatch("(%w+):(%d+)") do total = (total + #key * value) % 1000000007 end
end
print(total)
"#;

/// For node.
pub(crate) const NODE: &str = r#"
let total = 0;
for (let turn = 0; turn < Number(process.argv[2]); turn++) {
  const items = [];
  for (let i = 0; i < 20000; i++) items.push({ id: i, name: "item" + (i * 7919 % 5003), tags: [i % 7, String(i)] });
  const groups = new Map();
  for (const item of items) {
    if (!groups.has(item.name)) groups.set(item.name, []);
    groups.get(item.name).push(item);
  }
  const text = JSON.stringify([...groups]);
  const back = JSON.parse(text);
  const buffers = [];
  for (let i = 0; i < 2000; i++) buffers.push(Buffer.alloc(5000 + i, i % 256));
  total = (total + back.length + Buffer.concat(buffers).subarray(0, 20000).reduce((sum, b) => (sum + b) % 1000003, 0)) % 1000003;
}
console.log(total);
"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_the_same_every_time_and_as_long_as_asked() {
        assert_eq!(text(10), text(10));
        assert_eq!(text(10).lines().count(), 10);
        assert_eq!(c_file(5).matches("\nlong f").count(), 5);
        assert_eq!(git_stream(3).matches("commit refs/heads/main").count(), 3);
        assert!(sql(77).contains("i < 77"));
    }
}
