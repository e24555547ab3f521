//! CPUs of a kernel that come and go, what each CPU does when it is asked to, and the ticks of a
//! kernel with a clock.

use super::registry;
use crate::base::background::TICK_MS;
use crate::base::sync::{AtomicU32, Ordering, section};
use crate::base::units::CpuId;
use crate::engine;
use crate::percpu::remote::{self, Cause};
use crate::percpu::{self, pages};

/// Empties the slots that this CPU, `cpu`, was asked for. A request that cannot be met at this
/// moment stays.
pub(crate) fn serve(cpu: CpuId) {
    if !registry::for_each_alone(false, |cache| engine::drain_cpu(cache, cpu, Cause::Asked)) {
        remote::ask_again(cpu);
    }
}

/// The time of the last tick in milliseconds; 0 before the first call of [`poll`].
static LAST: AtomicU32 = AtomicU32::new(0);

/// See [`crate::poll`].
pub(crate) fn poll() {
    percpu::adopt_thread();
    let Some(now) = section::now_ms() else { return };
    let last = LAST.load(Ordering::Relaxed);
    let ticks = if last == 0 { 0 } else { now.wrapping_sub(last) / TICK_MS };
    if last != 0 && ticks == 0 {
        return;
    }
    // The rest counts for the next tick. The thread that wins the exchange does the work.
    let next = if last == 0 { now } else { last.wrapping_add(ticks * TICK_MS) };
    if LAST.compare_exchange(last, next.max(1), Ordering::Acquire, Ordering::Relaxed).is_ok() && ticks != 0 {
        super::advance(ticks);
    }
}

/// See [`crate::cpu_online`].
pub(crate) fn cpu_online(number: u32) -> bool {
    let cpu = remote::cpu_of(number);
    cpu.inspect(|&cpu| remote::set_online(cpu)).is_some()
}

/// See [`crate::cpu_dead`].
pub(crate) fn cpu_dead(number: u32) -> bool {
    let Some(cpu) = remote::cpu_of(number) else { return false };
    remote::set_dead(cpu);
    registry::for_each_alone(true, |cache| engine::drain_cpu(cache, cpu, Cause::Dead));
    pages::drain_cpu(cpu);
    true
}
