//! The instructions, one file per family; each has its decoding and its execution over the lanes of a warp.
//!
//! To add one: a file with `Op`, `decode` and `execute`, a variant of [`Operation`], a line in [`decode`] and one in
//! [`Operation::execute`].

pub(crate) mod access;
pub(crate) mod approximate;
pub(crate) mod async_copy;
pub(crate) mod atomic;
pub(crate) mod barrier;
pub(crate) mod bulk_copy;
mod bulk_memory;
pub(crate) mod cluster;
pub(crate) mod compare;
pub(crate) mod control;
pub(crate) mod convert;
pub(crate) mod float;
pub(crate) mod half;
pub(crate) mod integer;
pub(crate) mod lanes;
pub(crate) mod load;
pub(crate) mod logic;
pub(crate) mod machine;
pub(crate) mod matrix_load;
pub(crate) mod mbarrier;
pub(crate) mod mixed;
pub(crate) mod mma;
pub(crate) mod moves;
pub(crate) mod numbers;
pub(crate) mod proxy_fence;
pub(crate) mod store;
pub(crate) mod tensor_map;
pub(crate) mod warp_ops;
pub(crate) mod wgmma;
mod wgmma_matrix;
pub(crate) mod wgmma_registers;

use crate::decode::form::Form;
use crate::decode::types::Type;
use crate::error::Error;
use crate::memory::causality::Order;
use machine::{Machine, Step};

/// A decoded instruction with its guard: predicate slot (`NONE` without) and whether it is negated.
#[derive(Clone, Debug)]
pub(crate) struct Instruction {
    pub op: Operation,
    pub guard: u32,
    pub negated: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Control(control::Control),
    Barrier(Box<barrier::Barrier>),
    /// A fence; none of the block's scope does anything to global memory.
    Fence(Option<Order>),
    Move(moves::Op),
    Integer(integer::Op),
    Logic(logic::Op),
    Float(float::Op),
    Half(Box<half::Op>),
    Mixed(Box<mixed::Op>),
    Approximate(approximate::Op),
    Compare(compare::Op),
    Convert(convert::Op),
    Load(Box<load::Load>),
    Store(Box<store::Store>),
    Atomic(Box<atomic::Op>),
    AsyncCopy(Box<async_copy::Op>),
    Warp(Box<warp_ops::Op>),
    MatrixLoad(Box<matrix_load::Op>),
    Mma(Box<mma::Op>),
    Mbarrier(Box<mbarrier::Op>),
    BulkCopy(Box<bulk_copy::Op>),
    TensorMap(Box<tensor_map::Op>),
    ProxyFence(Box<proxy_fence::Op>),
    Cluster(cluster::Op),
    Wgmma(Box<wgmma::Op>),
    /// An instruction that touches registers of `wgmma`.
    Watched(Box<wgmma_registers::Watched>),
}

impl Operation {
    /// Executes anything but control flow and block barriers, which the scheduler handles.
    #[inline(always)]
    pub(crate) fn execute(&self, m: &mut Machine<'_>, mask: u32) -> Step {
        let vectors = m.launch.vectors;
        let r = &mut m.warp.registers;
        match self {
            Operation::Control(_) | Operation::Barrier(_) => {}
            Operation::Fence(order) => {
                if let Some(order) = order {
                    m.shared.device.fence(m.warp.index, *order);
                }
            }
            Operation::Move(op) => return op.execute(m, mask),
            Operation::Integer(op) => op.execute(vectors, r, mask),
            Operation::Logic(op) => op.execute(vectors, r, mask),
            Operation::Float(op) => op.execute(vectors, r, mask),
            Operation::Half(op) => op.execute(vectors, r, mask),
            Operation::Mixed(op) => op.execute(r, mask),
            Operation::Approximate(op) => op.execute(vectors, r, mask),
            Operation::Compare(op) => op.execute(vectors, r, mask),
            Operation::Convert(op) => op.execute(vectors, r, mask),
            Operation::Load(op) => return op.execute(m, mask),
            Operation::Store(op) => return op.execute(m, mask),
            Operation::Atomic(op) => return op.execute(m, mask),
            Operation::AsyncCopy(op) => return op.execute(m, mask),
            Operation::Warp(op) => return op.execute(m, mask),
            Operation::MatrixLoad(op) => return op.execute(m, mask),
            Operation::Mma(op) => return op.execute(m, mask),
            Operation::Mbarrier(op) => return op.execute(m, mask),
            Operation::BulkCopy(op) => return op.execute(m, mask),
            Operation::TensorMap(op) => return op.execute(m, mask),
            Operation::ProxyFence(op) => return op.execute(m, mask),
            Operation::Cluster(op) => return op.execute(m, mask),
            Operation::Wgmma(op) => return op.execute(m, mask),
            Operation::Watched(op) => return op.execute(m, mask),
        }
        Ok(())
    }
}

impl Operation {
    /// Whether its requests count as global ones.
    pub(crate) fn touches_global(&self) -> bool {
        match self {
            Operation::Load(op) => op.is_global(),
            Operation::Store(op) => op.is_global(),
            Operation::Atomic(op) => op.is_global(),
            Operation::AsyncCopy(_) | Operation::BulkCopy(_) => true,
            Operation::Watched(op) => op.op.touches_global(),
            _ => false,
        }
    }
    /// Whether it may order what blocks do to global memory, or is ordered with what others do there.
    pub(crate) fn orders_blocks(&self) -> bool {
        match self {
            Operation::Fence(order) => order.is_some(),
            Operation::Load(op) => op.is_global() && op.reaches_blocks(),
            Operation::Store(op) => op.is_global() && op.reaches_blocks(),
            Operation::Atomic(op) => op.is_global(),
            Operation::TensorMap(_) | Operation::ProxyFence(_) => true,
            Operation::Watched(op) => op.op.orders_blocks(),
            _ => false,
        }
    }
    /// Whether its requests count as shared ones.
    pub(crate) fn touches_shared(&self) -> bool {
        match self {
            Operation::Load(_) | Operation::Store(_) | Operation::Atomic(_) => !self.touches_global(),
            Operation::AsyncCopy(_) | Operation::MatrixLoad(_) => true,
            Operation::Watched(op) => op.op.touches_shared(),
            _ => false,
        }
    }
}

/// Decodes one instruction that is not control flow.
pub(crate) fn decode(form: &mut Form<'_, '_>) -> Result<Operation, Error> {
    Ok(match form.name() {
        "add" | "sub" | "mul" | "mad" | "fma" | "div" | "rem" | "abs" | "neg" | "min" | "max" | "addc" | "subc"
        | "sad" | "mul24" | "mad24" | "rcp" | "sqrt" | "copysign" | "testp" => arithmetic(form)?,
        "ex2" | "tanh" | "lg2" | "sin" | "cos" | "rsqrt" => {
            let t = form.ty()?;
            match t {
                Type::F16 | Type::F16x2 | Type::Bf16 | Type::Bf16x2 => {
                    Operation::Half(Box::new(half::decode(form, t)?))
                }
                Type::F64 if form.name() == "rsqrt" => {
                    form.need(&["approx"])?;
                    form.flag("ftz");
                    form.need_count(2)?;
                    Operation::Float(float::reciprocal_root64(form.dst(0, t)?, form.src(1, t)?))
                }
                _ => Operation::Approximate(approximate::decode(form, t)?),
            }
        }
        "dp4a" | "dp2a" => Operation::Integer(integer::decode_dot(form)?),
        "and" | "or" | "xor" | "not" | "cnot" | "shl" | "shr" | "shf" | "lop3" | "prmt" | "bfe" | "bfi" | "brev"
        | "popc" | "clz" | "bfind" | "bmsk" | "szext" | "fns" => Operation::Logic(logic::decode(form)?),
        "setp" | "set" | "selp" | "slct" => Operation::Compare(compare::decode(form)?),
        "cvt" => Operation::Convert(convert::decode(form)?),
        "mov" | "cvta" | "isspacep" | "prefetch" | "prefetchu" | "nanosleep" | "pmevent" | "griddepcontrol"
        | "setmaxnreg" => Operation::Move(moves::decode(form)?),
        "ld" | "ldu" => Operation::Load(Box::new(load::decode(form)?)),
        "st" => Operation::Store(Box::new(store::decode(form)?)),
        "atom" | "red" => Operation::Atomic(Box::new(atomic::decode(form)?)),
        "cp" => {
            if !form.flag("async") {
                return form.error("unknown instruction");
            }
            match form.pick(&["bulk", "mbarrier"]) {
                Some("bulk") => Operation::BulkCopy(Box::new(bulk_copy::decode(form)?)),
                Some(_) => Operation::Mbarrier(Box::new(mbarrier::decode_copies(form)?)),
                None => Operation::AsyncCopy(Box::new(async_copy::decode(form)?)),
            }
        }
        "mbarrier" => match mbarrier::decode(form)? {
            mbarrier::Decoded::Op(op) => Operation::Mbarrier(Box::new(op)),
            mbarrier::Decoded::PendingCount { d, state } => {
                Operation::Move(moves::Op::Unpack { a: state, wide: true, bits: 32, to: vec![d] })
            }
        },
        "tensormap" => Operation::TensorMap(Box::new(tensor_map::decode(form)?)),
        "mapa" | "getctarank" => Operation::Cluster(cluster::decode(form)?),
        "wgmma" => Operation::Wgmma(Box::new(wgmma::decode(form)?)),
        "shfl" | "vote" | "match" | "redux" | "activemask" | "elect" => {
            Operation::Warp(Box::new(warp_ops::decode(form)?))
        }
        "ldmatrix" | "stmatrix" | "movmatrix" => Operation::MatrixLoad(Box::new(matrix_load::decode(form)?)),
        "mma" => Operation::Mma(Box::new(mma::decode(form)?)),
        "bar" | "barrier" | "membar" | "fence" => match barrier::decode(form)? {
            barrier::Op::Block(b) => Operation::Barrier(Box::new(b)),
            barrier::Op::Warp(op) => Operation::Warp(Box::new(op)),
            barrier::Op::Fence(order) => Operation::Fence(order),
            barrier::Op::Proxy(op) => Operation::ProxyFence(Box::new(op)),
        },
        "trap" | "brkpt" => {
            form.need_count(0)?;
            Operation::Control(control::Control::Trap)
        }
        _ => return form.error("unknown instruction"),
    })
}

fn arithmetic(form: &mut Form<'_, '_>) -> Result<Operation, Error> {
    for (packed, signed) in [("u16x2", false), ("s16x2", true)] {
        if form.flag(packed) {
            return Ok(Operation::Integer(integer::decode_packed(form, signed)?));
        }
    }
    if form.flag("f32x2") {
        return Ok(Operation::Mixed(Box::new(mixed::decode_pairs(form)?)));
    }
    let t = match form.types()[..] {
        [t] => t,
        [Type::F32, narrow @ (Type::F16 | Type::Bf16)] => {
            return Ok(Operation::Mixed(Box::new(mixed::decode_mixed(form, narrow)?)));
        }
        _ => return form.error("expected exactly one type"),
    };
    Ok(match t {
        Type::F16 | Type::F16x2 | Type::Bf16 | Type::Bf16x2 => Operation::Half(Box::new(half::decode(form, t)?)),
        _ if t.is_float() => Operation::Float(float::decode(form, t)?),
        _ => Operation::Integer(integer::decode(form, t)?),
    })
}
