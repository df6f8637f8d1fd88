//! The relation of threads, by itself.

use super::*;

fn memory() -> SharedMemory {
    let mut m = SharedMemory::new(SharedChecks { races: true, uninitialised: true });
    m.reset(64, 2);
    m
}

fn barrier(m: &mut SharedMemory) {
    let mut all = m.release(0);
    let b = m.release(1);
    all.join(&b);
    m.acquire(0, &all, u32::MAX);
    m.acquire(1, &all, u32::MAX);
}

#[test]
fn reading_what_another_warp_wrote_needs_a_barrier() {
    let mut m = memory();
    m.read(0, 3, 0, 4, false).unwrap();
    assert!(m.unwritten.is_some());
    m.write(0, 3, 0, 4, false, false).unwrap();
    m.read(0, 3, 0, 4, false).unwrap();
    assert_eq!(m.read(1, 3, 0, 4, false).unwrap_err().kind, FaultKind::RaceShared);
    assert_eq!(m.read(0, 4, 0, 4, false).unwrap_err().kind, FaultKind::RaceShared);
    barrier(&mut m);
    m.read(1, 3, 0, 4, false).unwrap();
    m.read(0, 4, 0, 4, false).unwrap();
}

#[test]
fn writing_what_another_thread_read_needs_a_barrier() {
    let mut m = memory();
    m.write(0, 0, 8, 8, false, false).unwrap();
    barrier(&mut m);
    m.read(1, 5, 8, 8, false).unwrap();
    assert_eq!(m.write(0, 0, 8, 4, false, false).unwrap_err().kind, FaultKind::RaceShared);
    m.write(0, 0, 8, 4, false, true).unwrap();
    barrier(&mut m);
    m.write(0, 0, 8, 4, false, false).unwrap();
}

#[test]
fn lanes_of_a_warp_are_ordered_by_a_warp_barrier_of_both() {
    let mut m = memory();
    m.write(0, 1, 0, 4, false, false).unwrap();
    m.warp_sync(0, 0b101);
    assert!(m.read(0, 2, 0, 4, false).is_err());
    m.warp_sync(0, 0b110);
    m.read(0, 2, 0, 4, false).unwrap();
    assert!(m.read(0, 3, 0, 4, false).is_err());
}

#[test]
fn halves_of_a_word_belong_to_different_threads() {
    let mut m = memory();
    m.write(0, 0, 0, 2, false, false).unwrap();
    m.write(1, 0, 2, 2, false, false).unwrap();
    m.read(0, 0, 0, 2, false).unwrap();
    assert_eq!(m.read(0, 0, 0, 4, false).unwrap_err().kind, FaultKind::RaceShared);
    m.write(1, 0, 2, 2, false, false).unwrap();
    barrier(&mut m);
    m.read(0, 9, 0, 4, false).unwrap();
}

#[test]
fn copies_are_poison_until_waited_for() {
    let mut m = memory();
    m.async_begin(0, 0, 0, 16).unwrap();
    assert_eq!(m.read(0, 0, 4, 4, false).unwrap_err().kind, FaultKind::AsyncCopyNotWaited);
    assert_eq!(m.write(0, 0, 4, 4, false, false).unwrap_err().kind, FaultKind::AsyncCopyOverwritten);
    m.async_end(0, 16);
    m.read(0, 0, 4, 4, false).unwrap();
    assert_eq!(m.read(1, 0, 4, 4, false).unwrap_err().kind, FaultKind::RaceShared);
    barrier(&mut m);
    m.read(1, 0, 4, 4, false).unwrap();
}
