//! `dump_obj`: what is known of an address, for a program that has found something odd there.

use crate::base::report::warn;
use crate::cache::registry;
use crate::engine::{self, Engine, RawCache};
use crate::pages::memmap::MEMMAP;
use crate::sizes::large;
use crate::sizes::owner::{self, Misuse, Owner};

/// Prints on standard error what an address is, whose, and, in a cache with the flag `U`, who
/// allocated and who freed it: the kernel's `kmem_dump_obj`. The address may be any, also one
/// inside an object. Returns whether it is memory of this library.
#[place(cold)]
#[inline(never)]
pub fn dump_obj(ptr: *const u8) -> bool {
    let address = ptr as usize;
    if let Some((cache, start)) = object_around(address) {
        describe(cache, address, start);
        return true;
    }
    let (what, start, bytes) = match owner::identify(address) {
        Ok(owner @ Owner::Large(_)) => ("large object", address, owner.bytes(address)),
        Ok(owner @ Owner::Direct(_)) => ("huge object", address, owner.bytes(address)),
        #[cfg(feature = "os")]
        Ok(Owner::Apart(_)) if engine::guard::describe(address) => return true,
        Ok(owner) => ("object", address, owner.bytes(address)),
        Err(Misuse::NotAllocated(page)) => match large::around(page) {
            Some(start) => {
                let bytes = MEMMAP.page_of(start).map_or(0, large::bytes_of);
                ("large object", start, bytes)
            }
            None => {
                warn(format_args!("{address:#x} is free memory of the zone, or its own"));
                return true;
            }
        },
        #[cfg(feature = "os")]
        Err(Misuse::Foreign) if engine::guard::describe(address) => return true,
        Err(_) => {
            warn(format_args!("{address:#x} is no memory of ashlar"));
            return false;
        }
    };
    warn(format_args!("{address:#x} is {} bytes into the {what} {start:#x} of {bytes} bytes", address - start));
    true
}

/// Returns the cache of the slab that an address lies in, and the start of the object there; or of
/// the slab itself if there is no object.
#[place(cold)]
fn object_around(address: usize) -> Option<(&'static RawCache, Option<usize>)> {
    let (cache, slab) = registry::slab_of_address(address)?;
    let (start, head) = (MEMMAP.address_of(slab), MEMMAP.head(slab));
    let geometry = &cache.slabs.geometry;
    let colour = if geometry.colour_off == 0 { 0 } else { head.colour() };
    // What lies before a debugged object, and behind it, is its red zone: nearest to that object.
    let index = (address - start).saturating_sub(colour) / geometry.stride;
    let object = start + colour + index * geometry.stride;
    Some((cache, cache.slabs.locate(object).is_ok().then_some(object)))
}

#[place(cold)]
fn describe(cache: &'static RawCache, address: usize, object: Option<usize>) {
    let Some(object) = object else {
        return warn(format_args!("{address:#x} is in a slab of cache {}, in no object", cache.name()));
    };
    let known = if cache.engine == Engine::Debug { engine::debug::known(cache, object) } else { None };
    let state = match &known {
        Some(known) if known.is_free => "free",
        Some(_) => "in use",
        None if cache.policy.tracked && owner::is_in_use(object) => "in use",
        None if cache.policy.tracked => "free",
        None => "in use or free",
    };
    let (before, offset) = if address < object { ("before", object - address) } else { ("into", address - object) };
    warn(format_args!(
        "{address:#x} is {offset} bytes {before} the object {object:#x} of {} bytes of cache {}, {state}",
        cache.object_size(),
        cache.name()
    ));
    if let Some(known) = known {
        known.print_tracks();
    }
}
