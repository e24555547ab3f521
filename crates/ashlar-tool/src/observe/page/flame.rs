//! A heap profile as a flame graph: `main` at the top, its callees below, as wide as their memory.

use std::collections::HashMap;

use super::html::{Text, put};
use crate::profile::stacks::{NO_FRAMES, Stacks};
use crate::profile::text::bytes;

/// Frames narrower than this share are left out.
const NARROW: f64 = 0.0012;
/// The most frames.
const MOST: usize = 4000;
/// Pixels of a row; the style sheet has the same.
const ROW: usize = 20;
/// Colours of the style sheet.
const COLOURS: u32 = 6;

/// A function as it was called by the functions above it.
#[derive(Default)]
struct Node {
    bytes: f64,
    callees: HashMap<String, Node>,
}

/// Draws a profile. Says what was drawn: live memory, or all that was allocated if nothing lives.
pub(super) fn draw(page: &mut String, stacks: &Stacks<'_>) -> &'static str {
    let live: f64 = stacks.all.iter().map(|stack| stack.memory.live_bytes).sum();
    let mut root = Node::default();
    for stack in &stacks.all {
        let bytes = if live > 0.0 { stack.memory.live_bytes } else { stack.memory.allocated_bytes };
        if bytes > 0.0 {
            let names: Vec<&str> = stack.functions().rev().map(|frame| frame.function.as_str()).collect();
            add(&mut root, if names.is_empty() { &[NO_FRAMES] } else { &names }, bytes);
        }
    }
    let mut frames = Vec::new();
    place(&root, "all", 0.0, 0, root.bytes.max(1.0), &mut frames);
    let deepest = frames.iter().map(|frame: &Frame<'_>| frame.depth).max().unwrap_or(0);
    put!(page, "<div class=\"flame\" id=\"flame\" style=\"height:{}px\">", (deepest + 1) * ROW);
    for Frame { name, bytes: held, left, depth } in &frames {
        let share = held * 100.0 / root.bytes.max(1.0);
        put!(
            page,
            "<div class=\"c{}\" style=\"left:{:.4}%;width:{share:.4}%;top:{}px\" title=\"{}: {}, {share:.1} %\">{}</div>",
            colour(name),
            left * 100.0,
            depth * ROW,
            Text(name),
            bytes(*held),
            Text(name)
        );
    }
    *page += "</div>";
    if live > 0.0 { "live memory" } else { "all that was allocated; nothing of it lives" }
}

fn add(node: &mut Node, names: &[&str], bytes: f64) {
    let mut node = node;
    node.bytes += bytes;
    for name in names {
        if !node.callees.contains_key(*name) {
            node.callees.insert((*name).to_owned(), Node::default());
        }
        let Some(callee) = node.callees.get_mut(*name) else { return };
        callee.bytes += bytes;
        node = callee;
    }
}

/// One rectangle.
struct Frame<'a> {
    name: &'a str,
    bytes: f64,
    /// A share of the whole width.
    left: f64,
    depth: usize,
}

/// Places a function and its callees, the largest first. Depths are at most that of a backtrace.
fn place<'a>(node: &'a Node, name: &'a str, left: f64, depth: usize, whole: f64, frames: &mut Vec<Frame<'a>>) {
    if node.bytes < whole * NARROW || frames.len() >= MOST {
        return;
    }
    frames.push(Frame { name, bytes: node.bytes, left, depth });
    let mut callees: Vec<(&String, &Node)> = node.callees.iter().collect();
    callees.sort_by(|(a, one), (b, other)| other.bytes.total_cmp(&one.bytes).then_with(|| a.cmp(b)));
    let mut left = left;
    for (name, callee) in callees {
        place(callee, name, left, depth + 1, whole, frames);
        left += callee.bytes / whole;
    }
}

/// Returns the colour of a function: the same wherever it is called.
fn colour(name: &str) -> u32 {
    name.bytes().fold(2_166_136_261_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(16_777_619)) % COLOURS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callees_lie_below_their_callers_in_the_order_of_their_size() {
        let mut root = Node::default();
        add(&mut root, &["main", "a"], 30.0);
        add(&mut root, &["main", "b", "a"], 60.0);
        add(&mut root, &["main"], 10.0);
        add(&mut root, &["tiny"], 0.01);
        let mut frames = Vec::new();
        place(&root, "all", 0.0, 0, root.bytes, &mut frames);
        let told: Vec<(&str, f64, usize)> =
            frames.iter().map(|frame| (frame.name, (frame.left * 100.0).round(), frame.depth)).collect();
        assert_eq!(told, [("all", 0.0, 0), ("main", 0.0, 1), ("b", 0.0, 2), ("a", 0.0, 3), ("a", 60.0, 2)]);
        assert_eq!(frames[3].bytes, 60.0);
    }
}
