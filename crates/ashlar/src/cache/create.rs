//! Creates caches: turns arguments and options into the [`CacheSpec`] for the engine.
//!
//! For each property, an option for the cache's name takes precedence, then the argument, then the
//! option of the process, then the default of the policy and the engine.

use super::alias::Alias;
use super::args::CacheArgs;
use super::constructor::Constructor;
use super::merge;
use super::registry;
use super::settings::{self, Candidate, Debugging, Own};
use crate::base::error::CreateError;
use crate::base::units::BLOCK_ORDER;
use crate::engine::history::slab_queues;
use crate::engine::route::Guarding;
use crate::engine::{CacheSpec, DebugFlags, Engine, Policy, RawCache, Tunable, Wish};
use crate::percpu::sheaf::MAX_SHEAF_CAPACITY;
use crate::slab::OrderRule;
use crate::slab::cache::MAX_NAME;
use crate::slab::geometry::Geometry;
use ashlar_macros::place;

/// Creates and registers a cache, at `slot` if the caller has claimed one, or merges it into
/// another cache.
pub(crate) fn create_or_merge(
    name: &str,
    size: usize,
    args: &CacheArgs,
    policy: &'static Policy,
    slot: Option<u16>,
) -> Result<(&'static RawCache, Option<&'static Alias>), CreateError> {
    let options = settings::options();
    let (rule, cpus) = settings::order_rule();
    let chosen = if policy.of_program { settings::own_engine(name) } else { None };
    let engine = chosen.or(args.engine).unwrap_or(options.engine);
    let debugging = debugging(name, args, engine);
    let debugged = !debugging.flags.is_empty();
    let engine = if debugged { Engine::Debug } else { engine };
    let policy = policy.when_debugged.filter(|_| debugged).unwrap_or(policy);
    let own = settings::own_options(Candidate { name, of_program: policy.of_program, engine });
    let rule = order_rule(engine.order_rule(rule), args, &own)?;
    let constructed = args.ctor.is_some();
    let needs_link = constructed && engine.links_objects();
    let mut geometry = Geometry::new(size, args.align, args.hwcache_align, needs_link, rule, cpus)?;
    let mut debug = debugging.flags;
    if engine != Engine::Sheaves {
        let wish = Wish { constructed, rule, cpus, debug };
        (geometry, debug) = lay_out(engine, geometry, wish, debugging.low_orders).ok_or(CreateError::Size)?;
    }
    // The option for this cache, then the argument, then the option of the process.
    let wanted = |which, args: Option<usize>, all: Option<usize>| own.tunable(which).or(args).or(all);
    let stride = geometry.stride;
    let capacity = wanted(Tunable::SheafCapacity, args.sheaf_capacity, options.sheaf_capacity);
    let capacity = capacity.unwrap_or_else(|| policy.sheaf_capacity(stride));
    let partial = wanted(Tunable::MinPartial, args.min_partial, options.min_partial);
    let cpu_partial = wanted(Tunable::CpuPartial, args.cpu_partial, options.cpu_partial);
    let ratio = wanted(Tunable::RemoteNodeDefragRatio, args.remote_node_defrag_ratio, Some(options.defrag_ratio));
    let barn_limit = Policy::barn_limit(options.barn, capacity, stride);
    registry::register(&CacheSpec {
        name,
        geometry,
        ctor: args.ctor.map(Constructor::function),
        sheaf_capacity: capacity,
        barn_limit,
        min_partial: partial.unwrap_or_else(|| engine.min_partial(policy.min_partial(stride), stride)),
        cpu_partial: cpu_partial.unwrap_or_else(|| engine.cpu_partial(stride)),
        defrag_ratio: ratio.unwrap_or(0) as u16 * 10,
        engine,
        queues: slab_queues::QueueOptions {
            limit: wanted(Tunable::Limit, None, options.limit),
            batchcount: wanted(Tunable::BatchCount, None, options.batchcount),
            shared: wanted(Tunable::Shared, None, options.shared),
            noaliencache: options.noaliencache,
        },
        policy,
        debug,
        merge: merge::rule(args, policy, &options, &own),
        guarded: options.guard != Guarding::Off && own.guard.unwrap_or(policy.guarded),
        slot,
    })
}

/// Returns which debugging a cache has by its arguments and by the options.
fn debugging(name: &str, args: &CacheArgs, engine: Engine) -> Debugging {
    #[place(cold)]
    #[inline(never)]
    fn look_up(name: &str, args: &CacheArgs) -> Debugging {
        let asked = if args.no_user_debug { Debugging::NONE } else { settings::debugging(name) };
        Debugging { flags: asked.flags.with(args.debug), ..asked }
    }
    let said = settings::has_debugging() || !args.debug.is_empty();
    let found = if said { look_up(name, args) } else { Debugging::NONE };
    let all = engine == Engine::Debug && found.flags.is_empty();
    if all { Debugging { flags: DebugFlags::DEFAULT, ..found } } else { found }
}

/// Returns the geometry that an engine makes of the general one, and the debug flags that are left
/// if they must not lead to a higher order.
#[place(cold)]
#[inline(never)]
fn lay_out(engine: Engine, plain: Geometry, wish: Wish, low_orders: bool) -> Option<(Geometry, DebugFlags)> {
    let laid_out = engine.lay_out(plain, wish);
    let is_higher = laid_out.is_none_or(|laid_out| laid_out.min_order > plain.min_order);
    if low_orders && is_higher {
        let debug = wish.debug.without(DebugFlags::METADATA);
        return Some((engine.lay_out(plain, Wish { debug, ..wish })?, debug));
    }
    Some((laid_out?, wish.debug))
}

/// Refuses names and arguments that no cache of a program can have.
pub(crate) fn check_wishes(name: &str, size: usize, args: &CacheArgs) -> Result<(), CreateError> {
    if name.is_empty() || name.len() > MAX_NAME || name.chars().any(char::is_control) {
        return Err(CreateError::Name);
    }
    if size > 0 && args.ctor.is_some_and(|ctor| !ctor.fits(size, args.align)) {
        return Err(CreateError::Option(Constructor::EXPECTED));
    }
    if args.sheaf_capacity.is_some_and(|n| n == 0 || n > MAX_SHEAF_CAPACITY) {
        return Err(CreateError::Option("sheaf_capacity: expected 1 to 254"));
    }
    for (which, value) in [
        (Tunable::MinPartial, args.min_partial),
        (Tunable::CpuPartial, args.cpu_partial),
        (Tunable::RemoteNodeDefragRatio, args.remote_node_defrag_ratio),
    ] {
        if value.is_some_and(|value| value > which.range().1) {
            return Err(CreateError::Option(which.expected()));
        }
    }
    Ok(())
}

/// Creates a cache of the library's own, which is never merged, at `slot` if the caller has claimed
/// one.
pub(crate) fn create_raw(
    name: &str,
    size: usize,
    args: &CacheArgs,
    policy: &'static Policy,
    slot: Option<u16>,
) -> Result<&'static RawCache, CreateError> {
    create_or_merge(name, size, args, policy, slot).map(|(raw, _)| raw)
}

fn order_rule(rule: OrderRule, args: &CacheArgs, own: &Own) -> Result<OrderRule, CreateError> {
    let min_order = args.min_order.unwrap_or(rule.min_order);
    // A caller that sets only the smallest order need not consider the engine's largest.
    let max_order = args.max_order.unwrap_or(rule.max_order.max(min_order));
    if max_order > BLOCK_ORDER {
        return Err(CreateError::Option(settings::MAX_ORDER));
    }
    if min_order > max_order {
        return Err(CreateError::Option("min_order: expected at most max_order"));
    }
    // If an option of this cache would leave no order between the limits, it moves the other limit.
    let (low, high) = (own.min_order.unwrap_or(0), own.max_order.unwrap_or(BLOCK_ORDER));
    Ok(OrderRule {
        min_order: own.min_order.unwrap_or(min_order.min(high)),
        max_order: own.max_order.unwrap_or(max_order).max(low),
        min_objects: own.min_objects.unwrap_or(rule.min_objects),
    })
}
