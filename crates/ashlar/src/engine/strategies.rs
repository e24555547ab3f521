//! The macros that lead a call to the strategy of an engine. The names of the strategies are those
//! that the file imports which calls them.

/// Calls a function of the strategy of an engine: `each!(engine, strategy => call)`.
macro_rules! each {
    ($engine:expr, $strategy:ident => $call:expr) => {
        match $engine {
            Engine::Sheaves => {
                let $strategy = Sheaves;
                $call
            }
            Engine::Slub(stage) => {
                let $strategy = Slub(stage);
                $call
            }
            Engine::Slab => {
                let $strategy = SlabQueues(Edition::V6_1);
                $call
            }
            Engine::Slab24 => {
                let $strategy = SlabQueues(Edition::V2_6_24);
                $call
            }
            Engine::Slob => {
                let $strategy = Slob;
                $call
            }
            Engine::SlobSeg => {
                let $strategy = SlobPools { of_powers_of_two: true };
                $call
            }
            Engine::SlobCache => {
                let $strategy = SlobPools { of_powers_of_two: false };
                $call
            }
            Engine::Debug => {
                let $strategy = Debug;
                $call
            }
            #[cfg(test)]
            Engine::Toy => {
                let $strategy = super::toy::Toy;
                $call
            }
        }
    };
}

/// As `each!`, of a function that needs a cache only.
macro_rules! of_cache {
    ($cache:expr, $function:ident($($argument:expr),*)) => {
        match $cache.engine {
            Engine::Sheaves => Sheaves::$function($($argument),*),
            Engine::Slub(_) => Slub::$function($($argument),*),
            Engine::Slab | Engine::Slab24 => SlabQueues::$function($($argument),*),
            Engine::Slob => Slob::$function($($argument),*),
            Engine::SlobSeg | Engine::SlobCache => SlobPools::$function($($argument),*),
            Engine::Debug => Debug::$function($($argument),*),
            #[cfg(test)]
            Engine::Toy => super::toy::Toy::$function($($argument),*),
        }
    };
}
