#!/bin/sh
# Builds a crate of some modules with generics, in release mode, and runs its program.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir -p "$dir/src"
printf '[package]\nname = "made"\nversion = "0.1.0"\nedition = "2021"\n[workspace]\n' >"$dir/Cargo.toml"
for i in 1 2 3 4 5 6; do
    cat >"$dir/src/m$i.rs" <<RUST
use std::collections::{BTreeMap, HashMap, VecDeque};
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Part { Word(String), Number(u64), Many(Vec<Part>) }
pub fn build(depth: u32) -> Part {
    if depth == 0 { return Part::Number($i); }
    Part::Many((0..3).map(|i| if i == 1 { Part::Word(format!("{depth}-{i}")) } else { build(depth - 1) }).collect())
}
pub fn run() -> usize {
    let mut map = BTreeMap::new();
    let mut counts: HashMap<Part, usize> = HashMap::new();
    let mut queue = VecDeque::from([build(5)]);
    while let Some(part) = queue.pop_front() {
        *counts.entry(part.clone()).or_default() += 1;
        map.insert(part.clone(), queue.len());
        if let Part::Many(parts) = part { queue.extend(parts); }
    }
    map.len() * 1000 + counts.values().max().copied().unwrap_or(0)
}
RUST
    echo "mod m$i;" >>"$dir/src/main.rs"
done
echo 'fn main() { println!("{} {} {} {} {} {}", m1::run(), m2::run(), m3::run(), m4::run(), m5::run(), m6::run()); }' \
    >>"$dir/src/main.rs"
cd "$dir"
CARGO_TARGET_DIR=$dir/target cargo build --release --offline -q
"$dir/target/release/made"
