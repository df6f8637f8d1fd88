//! Conversions within a warp by shuffles.

use crate::bits::{combine, combine32, kernel};
use crate::{LANE_BITS, Span, TileLayout};

/// A number, linear in the bits of lane and warp.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ThreadFunction {
    /// What each bit of the lane adds (xor).
    pub lanes: [u32; LANE_BITS],
    /// What each bit of the warp adds (xor).
    pub warps: Vec<u32>,
}

/// A step that brings registers into an order that depends on the thread: where the parity of `lane & lanes` and `warp & warps` is odd,
/// every register takes the value of the register at its index xor `register_xor`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Exchange {
    /// Which registers change places.
    pub register_xor: u32,
    /// The bits of the lane whose parity decides.
    pub lanes: u32,
    /// The bits of the warp whose parity decides.
    pub warps: u32,
}

impl ThreadFunction {
    /// The value for a thread.
    pub fn value(&self, lane: u32, warp: u32) -> u32 {
        combine32(&self.lanes, lane) ^ combine32(&self.warps, warp)
    }

    /// Whether it is zero for all threads.
    pub fn is_zero(&self) -> bool {
        self.lanes.iter().chain(&self.warps).all(|&v| v == 0)
    }

    /// Whether it is the lane itself.
    fn is_lane(&self) -> bool {
        self.lanes.iter().enumerate().all(|(i, &v)| v == 1 << i) && self.warps.iter().all(|&v| v == 0)
    }

    /// The steps after which register `i` of each thread holds what register `i ^ value` held: one select per register and step. As few
    /// steps as the function has independent bits.
    pub fn exchanges(&self) -> Vec<Exchange> {
        let mut span = Span::new();
        let mut steps: Vec<Exchange> = Vec::new();
        let columns = self.lanes.iter().chain(&self.warps);
        for (i, &value) in columns.enumerate() {
            let (lanes, warps) = if i < LANE_BITS { (1 << i, 0) } else { (0, 1 << (i - LANE_BITS)) };
            let taken = match span.push(u64::from(value), 1 << steps.len()) {
                None => {
                    steps.push(Exchange { register_xor: value, lanes: 0, warps: 0 });
                    1 << (steps.len() - 1)
                }
                Some(combination) => combination,
            };
            for step in steps.iter_mut().enumerate().filter(|(s, _)| taken >> s & 1 == 1).map(|(_, step)| step) {
                step.lanes |= lanes;
                step.warps |= warps;
            }
        }
        steps
    }
}

/// One shuffle: a 32-bit word per lane (several for wider elements).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shuffle {
    /// Each lane reads from lane `source ^ source_xor`.
    pub source_xor: u32,
    /// No lane reads from another: the values only change registers.
    pub local: bool,
    /// The elements packed in the word, lowest first; one unless elements are narrower than 32 bits.
    pub parts: Vec<ShufflePart>,
}

/// One element of a shuffle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ShufflePart {
    /// Each lane sends its register `send ^ send_xor` of the source.
    pub send_xor: u32,
    /// What a lane receives goes to its register `receive ^ receive_xor` of the target.
    pub receive_xor: u32,
}

/// A conversion within each warp: at most one shuffle per register of the target.
///
/// A code generator brings the source's registers into the order of the sender ([`ThreadFunction::exchanges`] of `send`), so that each
/// shuffle sends a fixed register, shuffles, and brings what it received into the order of the receiver (those of `receive`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShufflePlan {
    /// The sending lane's own part of the register to send.
    pub send: ThreadFunction,
    /// The receiving lane's part of the lane to read from.
    pub source: ThreadFunction,
    /// The receiving lane's part of the register to fill.
    pub receive: ThreadFunction,
    /// The shuffles, in order; together they fill every register of the target but those of `copies`.
    pub shuffles: Vec<Shuffle>,
    /// Registers of the target that hold the same as another of the same thread: `(register, other)`, for every thread alike.
    pub copies: Vec<(u32, u32)>,
}

/// A register of the source and a lane, as bits: the lane lowest.
fn place(register: u32, lane: u32) -> u64 {
    u64::from(register) << LANE_BITS | u64::from(lane)
}

const LANE_MASK: u64 = (1 << LANE_BITS) - 1;

impl ShufflePlan {
    /// The plan, for layouts of one shape over equally many warps; nothing if data must cross warps, or if some lane would have to send
    /// more than one register for one register of the others.
    pub(crate) fn new(source: &TileLayout, target: &TileLayout, element_bytes: u32) -> Option<Self> {
        let (distinct, canonical) = target.distinct_registers();
        let held = Held::new(source);

        // For each bit of the target's place, where its element lies in the source.
        let registers: Vec<u64> = distinct.register_columns().iter().map(|&e| held.find(e)).collect::<Option<_>>()?;
        let threads = |wanted: Vec<u64>, has: Vec<u64>, lanes: bool| {
            let one = |(bit, (&wanted, &has)): (usize, (&u64, &u64))| {
                let own = if lanes { place(0, 1 << bit) } else { 0 };
                // The own lane's registers first, then other lanes' alike registers.
                held.registers
                    .express(wanted ^ has)
                    .map(|r| r ^ own)
                    .or_else(|| held.find_by_lane(if lanes { wanted } else { wanted ^ has }))
            };
            wanted.iter().zip(&has).enumerate().map(one).collect::<Option<Vec<u64>>>()
        };
        let mut lanes = threads(distinct.lane_columns(), source.lane_columns(), true)?;
        let warps = threads(distinct.warp_columns(), source.warp_columns(), false)?;

        // Freedom: other places of the same element, and other registers of the target to fill at the same time.
        let mut free: Vec<(u64, u32)> = held.repeats.iter().map(|&p| (p, 0)).collect();
        free.extend(registers.iter().enumerate().map(|(bit, &p)| (p, 1 << bit)));
        let mut receive = [0; LANE_BITS];
        // Lanes whose sources differ, as (source lane, register to send); the others must ask no sender for two registers.
        let mut pivots: Vec<u64> = Vec::new();
        let mut pivot_lanes = Span::new();
        let mut pending = Vec::new();
        for (bit, &p) in lanes.iter().enumerate() {
            match pivot_lanes.push(p & LANE_MASK, 0) {
                None => pivots.push(p),
                Some(_) => pending.push(bit),
            }
        }
        for bit in pending {
            let p = lanes[bit];
            if Span::of(&pivots).contains(p) {
                continue;
            }
            let spread = free.iter().find(|(f, _)| !pivot_lanes.contains((p ^ f) & LANE_MASK));
            let (change, register) = match spread {
                Some(&found) => found,
                None => {
                    let vectors: Vec<u64> = pivots.iter().copied().chain(free.iter().map(|f| f.0)).collect();
                    let used = Span::of(&vectors).express(p)? >> pivots.len();
                    free.iter()
                        .enumerate()
                        .filter(|(i, _)| used >> i & 1 == 1)
                        .fold((0, 0), |(p, r), (_, f)| (p ^ f.0, r ^ f.1))
                }
            };
            lanes[bit] ^= change;
            receive[bit] = register;
            if pivot_lanes.push(lanes[bit] & LANE_MASK, 0).is_none() {
                pivots.push(lanes[bit]);
            }
        }

        // The register to send as a function of the sending lane.
        let mut sender = Span::new();
        for &p in &pivots {
            sender.push(p & LANE_MASK, p >> LANE_BITS);
        }
        (0..LANE_BITS).for_each(|bit| {
            sender.push(1 << bit, 0);
        });
        let sent = |lane: u64| sender.express(lane).unwrap_or(0);
        // What is sent must not depend on more than the sending lane, warp and shuffle: take out what the source lane accounts for.
        let rest = |p: u64| (sent(p & LANE_MASK) ^ p >> LANE_BITS) as u32;
        let mut send = ThreadFunction { lanes: [0; LANE_BITS], warps: warps.iter().map(|&p| rest(p)).collect() };
        send.lanes.iter_mut().enumerate().for_each(|(bit, v)| *v = sent(1 << bit) as u32);
        let mut from =
            ThreadFunction { lanes: [0; LANE_BITS], warps: warps.iter().map(|&p| (p & LANE_MASK) as u32).collect() };
        from.lanes.iter_mut().zip(&lanes).for_each(|(v, &p)| *v = (p & LANE_MASK) as u32);
        let receive = ThreadFunction { lanes: receive, warps: vec![0; warps.len()] };

        // Registers of the target that come from the same lane travel in one word.
        let sources: Vec<u64> = registers.iter().map(|&p| p & LANE_MASK).collect();
        let packed_bits = (4 / element_bytes).max(1).ilog2() as usize;
        let packed: Vec<u64> = kernel(&sources).into_iter().take(packed_bits).collect();
        let mut span = Span::of(&packed);
        let apart: Vec<u64> = (0..registers.len()).map(|bit| 1 << bit).filter(|&v| span.push(v, 0).is_none()).collect();
        let part = |register: u64| {
            let p = combine(&registers, register);
            ShufflePart { send_xor: rest(p), receive_xor: register as u32 }
        };
        let shuffles = (0..1u64 << apart.len()).map(|index| {
            let first = combine(&apart, index);
            let source_xor = combine(&sources, first) as u32;
            let parts = (0..1u64 << packed.len()).map(|i| part(first ^ combine(&packed, i))).collect();
            Shuffle { source_xor, local: source_xor == 0 && from.is_lane(), parts }
        });
        let shuffles = shuffles.collect();

        // Registers of the target in terms of its distinct ones: the first with the same contents stands for the rest.
        let mut first = vec![None; distinct.registers() as usize];
        for (register, &c) in canonical.iter().enumerate() {
            first[c as usize].get_or_insert(register as u32);
        }
        let spread: Vec<u32> = first.into_iter().map(|r| r.unwrap_or(0)).collect();
        let copies = canonical
            .iter()
            .zip(0..)
            .filter(|(c, r)| spread[**c as usize] != *r)
            .map(|(c, r)| (r, spread[*c as usize]));
        let copies = copies.collect();
        Some(Self { send, source: from, receive, shuffles, copies }.spread_registers(&spread))
    }

    /// Renames the registers to receive: index bits of distinct registers to those of the target's own, an injective linear map.
    fn spread_registers(mut self, spread: &[u32]) -> Self {
        let rename = |r: u32| spread.get(r as usize).copied().unwrap_or(0);
        self.receive.lanes.iter_mut().chain(&mut self.receive.warps).for_each(|r| *r = rename(*r));
        self.shuffles.iter_mut().flat_map(|s| &mut s.parts).for_each(|p| p.receive_xor = rename(p.receive_xor));
        self
    }

    /// Words shuffled per lane, for elements of `element_bytes`.
    pub fn words(&self, element_bytes: u32) -> u32 {
        self.shuffles.iter().filter(|s| !s.local).count() as u32 * (element_bytes / 4).max(1)
    }
}

/// Where the elements of a warp's part of a tile lie.
struct Held {
    /// Elements in registers alone.
    registers: Span,
    /// Elements in registers and lanes, registers preferred.
    all: Span,
    /// The same, lanes preferred.
    by_lane: Span,
    /// Differences between places of one element.
    repeats: Vec<u64>,
}

impl Held {
    fn new(layout: &TileLayout) -> Self {
        let registers: Vec<(u64, u64)> =
            layout.register_columns().into_iter().enumerate().map(|(i, e)| (e, place(1 << i, 0))).collect();
        let lanes: Vec<(u64, u64)> =
            layout.lane_columns().into_iter().enumerate().map(|(i, e)| (e, place(0, 1 << i))).collect();
        let span = |lists: &[&[(u64, u64)]]| {
            let mut span = Span::new();
            let mut repeats = Vec::new();
            for &(element, place) in lists.iter().copied().flatten() {
                repeats.extend(span.push(element, place).map(|other| other ^ place));
            }
            (span, repeats)
        };
        let (all, repeats) = span(&[&registers, &lanes]);
        Self { registers: span(&[&registers]).0, all, by_lane: span(&[&lanes, &registers]).0, repeats }
    }

    fn find(&self, element: u64) -> Option<u64> {
        self.all.express(element)
    }

    fn find_by_lane(&self, element: u64) -> Option<u64> {
        self.by_lane.express(element)
    }
}
