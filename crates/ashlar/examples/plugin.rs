//! A library in Rust that a program of any language loads by `dlopen`: `Ashlar` is its allocator,
//! and a thread of its own gives free memory back. It stays loaded after `dlclose`, because threads
//! may be in its code and objects may live on.

#[global_allocator]
static GLOBAL: ashlar::Ashlar = ashlar::Ashlar;

/// Starts the background thread; false if there is none to be had.
#[unsafe(no_mangle)]
pub extern "C" fn plugin_start() -> bool {
    ashlar::start_reaper().is_ok()
}

/// Sorts some numbers as text, `rounds` times; returns the length of all of them.
#[unsafe(no_mangle)]
pub extern "C" fn plugin_work(rounds: usize) -> usize {
    let mut bytes = 0;
    for round in 0..rounds {
        let mut words: Vec<String> = (0..200).map(|n| (n * 7919 + round).to_string()).collect();
        words.sort();
        bytes += words.concat().len();
    }
    bytes
}
