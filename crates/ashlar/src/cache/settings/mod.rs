//! Settings: what the user asked for, read once, at the start. The lowest part of the layer:
//! everything in it and above reads settings here, and everything below is told values.
//!
//! They are `key=value` pairs, separated by commas, from the environment variable `ASHLAR_OPTIONS`
//! or from [`crate::configure`].
//!
//! * [`mod@options`]: those of the whole allocator. [`own`]: those of single caches.
//! * [`store`]: where they are kept.

mod debug;
mod options;
mod own;
mod store;
mod values;

pub(crate) use debug::Debugging;
pub use debug::{DebugError, check_debug, check_failslab};
pub(crate) use options::Options;
#[cfg(feature = "os")]
pub(crate) use options::{Control, Reaper};
pub use options::{DeepBind, OptionError, check_options};
pub(crate) use own::{Candidate, Own};
pub(crate) use store::{
    configure_if, debugging, for_each_lock, has_debugging, options, order_rule, own_engine, own_options, set_cpus,
    settle,
};
#[cfg(feature = "os")]
pub(crate) use store::{read_environment, wants_backtraces};
pub(crate) use values::MAX_ORDER;
