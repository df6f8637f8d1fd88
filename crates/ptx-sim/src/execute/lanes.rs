//! Registers of a warp, one array of 32 lanes each, and whole-warp maps over them.
//!
//! - Eight-, sixteen- and thirty-two-bit registers live zero-extended in 32-bit slots; 64-bit ones in slots of their own;
//!   predicates are one bit a lane.
//! - Maps compute every lane, also inactive ones, so that they vectorise; only the write is masked.

/// Index of a register in its file.
pub(crate) type Slot = u32;

/// One value a lane.
pub(crate) type Lanes<T> = [T; 32];

#[derive(Clone, Copy)]
#[repr(align(64))]
pub(crate) struct Lanes32(pub Lanes<u32>);

#[derive(Clone, Copy)]
#[repr(align(64))]
pub(crate) struct Lanes64(pub Lanes<u64>);

/// Register files of one warp.
#[derive(Default)]
pub(crate) struct Registers {
    pub r32: Vec<Lanes32>,
    pub r64: Vec<Lanes64>,
    pub predicates: Vec<u32>,
}

impl Registers {
    #[inline(always)]
    pub(crate) fn get(&self, s: Slot) -> &Lanes<u32> {
        &self.r32[s as usize].0
    }
    #[inline(always)]
    pub(crate) fn get64(&self, s: Slot) -> &Lanes<u64> {
        &self.r64[s as usize].0
    }
    #[inline(always)]
    pub(crate) fn predicate(&self, s: Slot) -> u32 {
        self.predicates[s as usize]
    }
    #[inline(always)]
    pub(crate) fn put(&mut self, s: Slot, v: &Lanes<u32>, mask: u32) {
        let old = &mut self.r32[s as usize].0;
        if mask == u32::MAX {
            *old = *v;
        } else {
            for i in 0..32 {
                let keep = (mask >> i & 1).wrapping_neg();
                old[i] = v[i] & keep | old[i] & !keep;
            }
        }
    }
    #[inline(always)]
    pub(crate) fn put64(&mut self, s: Slot, v: &Lanes<u64>, mask: u32) {
        let old = &mut self.r64[s as usize].0;
        if mask == u32::MAX {
            *old = *v;
        } else {
            for i in 0..32 {
                let keep = u64::from(mask >> i & 1).wrapping_neg();
                old[i] = v[i] & keep | old[i] & !keep;
            }
        }
    }
    #[inline(always)]
    pub(crate) fn put_predicate(&mut self, s: Slot, v: u32, mask: u32) {
        let old = &mut self.predicates[s as usize];
        *old = v & mask | *old & !mask;
    }
}

#[inline(always)]
pub(crate) fn map1<A: Copy, R: Copy + Default>(a: &Lanes<A>, f: impl Fn(A) -> R) -> Lanes<R> {
    let mut out = [R::default(); 32];
    for i in 0..32 {
        out[i] = f(a[i]);
    }
    out
}

#[inline(always)]
pub(crate) fn map2<A: Copy, B: Copy, R: Copy + Default>(a: &Lanes<A>, b: &Lanes<B>, f: impl Fn(A, B) -> R) -> Lanes<R> {
    let mut out = [R::default(); 32];
    for i in 0..32 {
        out[i] = f(a[i], b[i]);
    }
    out
}

#[inline(always)]
pub(crate) fn map3<A: Copy, B: Copy, C: Copy, R: Copy + Default>(
    a: &Lanes<A>,
    b: &Lanes<B>,
    c: &Lanes<C>,
    f: impl Fn(A, B, C) -> R,
) -> Lanes<R> {
    let mut out = [R::default(); 32];
    for i in 0..32 {
        out[i] = f(a[i], b[i], c[i]);
    }
    out
}

/// One bit a lane from a test of two values.
#[inline(always)]
pub(crate) fn test2<A: Copy>(a: &Lanes<A>, b: &Lanes<A>, f: impl Fn(A, A) -> bool) -> u32 {
    let mut flags = [0u32; 32];
    for i in 0..32 {
        flags[i] = u32::from(f(a[i], b[i])) << i;
    }
    flags.iter().fold(0, |all, &bit| all | bit)
}

/// Lanes of a mask, lowest first.
#[inline(always)]
pub(crate) fn lanes_of(mut mask: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        (mask != 0).then(|| {
            let lane = mask.trailing_zeros() as usize;
            mask &= mask - 1;
            lane
        })
    })
}

/// Runs a computation with the widest vector instructions of the machine; the result does not depend on which.
#[derive(Clone, Copy)]
pub(crate) struct Vectors {
    #[cfg(target_arch = "x86_64")]
    v3: Option<pulp::x86::V3>,
}

impl Vectors {
    pub(crate) fn detect() -> Vectors {
        Vectors {
            #[cfg(target_arch = "x86_64")]
            v3: pulp::x86::V3::try_new(),
        }
    }

    #[inline(always)]
    pub(crate) fn run<R, F: pulp::NullaryFnOnce<Output = R>>(self, f: F) -> R {
        #[cfg(target_arch = "x86_64")]
        if let Some(v3) = self.v3 {
            return v3.vectorize(f);
        }
        f.call()
    }
}
