//! Fences between proxies (PTX ISA 9.7.13.4): `fence.proxy.*`.

use super::lanes::lanes_of;
use super::machine::{Machine, Step};
use crate::decode::form::{Address, Form};
use crate::error::Error;
use crate::fault::{FaultKind, Trap};
use crate::memory::causality::Order;
use crate::tensor_map::TENSOR_MAP_BYTES;

#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// Between names of one memory: there is one here.
    Alias,
    /// Writes before it are visible to the asynchronous proxy; of global memory only, nothing is kept.
    Async { shared: bool },
    /// Tensor maps that were written are handed on.
    TensorMapRelease,
    /// The tensor map is visible to bulk copies from here on.
    TensorMapAcquire { address: Address },
}

impl Op {
    pub(crate) fn execute(&self, m: &mut Machine<'_>, mask: u32) -> Step {
        match self {
            Op::Alias | Op::Async { shared: false } => {}
            Op::Async { shared: true } => m.shared.proxy_fence(m.warp.index, mask),
            Op::TensorMapRelease => m.shared.device.fence(m.warp.index, Order { acquire: false, release: true }),
            Op::TensorMapAcquire { address } => {
                m.shared.device.fence(m.warp.index, Order { acquire: true, release: false });
                let addresses = address.lanes(m);
                let mut rest = mask;
                while rest != 0 {
                    let first = rest.trailing_zeros() as usize & 31;
                    let at = addresses[first];
                    if !at.is_multiple_of(TENSOR_MAP_BYTES as u64) {
                        let detail = format!("address {at:#x} of a tensor map is no multiple of {TENSOR_MAP_BYTES}");
                        return Err(Trap::new(FaultKind::Misaligned, first as u32, detail));
                    }
                    let same = lanes_of(rest).filter(|&i| addresses[i] == at).fold(0, |all, i| all | 1 << i);
                    m.shared.map_acquired(m.warp.index, same, at);
                    rest &= !same;
                }
            }
        }
        Ok(())
    }
}

/// `fence.proxy…`, with the opcode taken up to there.
pub(crate) fn decode(form: &mut Form<'_, '_>) -> Result<Op, Error> {
    let op = match form.need(&["alias", "async", "tensormap::generic"])? {
        "alias" => Op::Alias,
        "async" => {
            let space = form.pick(&["global", "shared", "shared::cta", "shared::cluster"]);
            Op::Async { shared: space != Some("global") }
        }
        _ => {
            let semantics = form.need(&["release", "acquire"])?;
            form.need(&["cta", "cluster", "gpu", "sys"])?;
            if semantics == "acquire" {
                form.need_count(2)?;
                if form.constant(1)? != TENSOR_MAP_BYTES as i64 {
                    return form.error("the size is 128 bytes");
                }
                return Ok(Op::TensorMapAcquire { address: form.address(0)? });
            }
            Op::TensorMapRelease
        }
    };
    form.need_count(0)?;
    Ok(op)
}
