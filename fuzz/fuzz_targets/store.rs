//! The store: whatever a few clients do in whatever order, memory is given to one of them at a
//! time, nothing pinned is freed, every request is answered once, and in the end nothing is left.

#![no_main]

use libfuzzer_sys::fuzz_target;
use plasmon_fuzz::Input;
use plasmon_fuzz::world::World;

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input::new(bytes);
    let mut world = World::new(&mut input);
    while !input.is_empty() {
        world.step(&mut input);
    }
    world.end();
});
