//! Clusters (PTX ISA 9.7.9.23): `mapa`, `getctarank`. A cluster has one block: its shared memory is that of the cluster.

use super::lanes::{Slot, lanes_of};
use super::machine::{Machine, Step};
use crate::decode::form::Form;
use crate::decode::types::Type;
use crate::error::Error;
use crate::fault::{FaultKind, Trap};

#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// The address of the same bytes in the block of a rank.
    Map { d: Slot, a: Slot, wide: bool, rank: Slot },
    /// Rank of the block whose shared memory an address leads to.
    Rank { d: Slot },
}

impl Op {
    pub(crate) fn execute(&self, m: &mut Machine<'_>, mask: u32) -> Step {
        match *self {
            Op::Map { d, a, wide, rank } => {
                let ranks = *m.warp.registers.get(rank);
                if let Some(i) = lanes_of(mask).find(|&i| ranks[i] != 0) {
                    let detail = format!("the cluster has no block {}: it has one", ranks[i]);
                    return Err(Trap::new(FaultKind::InvalidOperand, i as u32, detail));
                }
                let r = &mut m.warp.registers;
                if wide {
                    let v = *r.get64(a);
                    r.put64(d, &v, mask);
                } else {
                    let v = *r.get(a);
                    r.put(d, &v, mask);
                }
            }
            Op::Rank { d } => m.warp.registers.put(d, &[0; 32], mask),
        }
        Ok(())
    }
}

pub(crate) fn decode(form: &mut Form<'_, '_>) -> Result<Op, Error> {
    form.flag("shared::cluster");
    let t = form.ty()?;
    if t != Type::U32 && t != Type::U64 {
        return form.unsupported(t);
    }
    if form.name() == "getctarank" {
        form.need_count(2)?;
        form.src(1, t)?;
        return Ok(Op::Rank { d: form.dst(0, Type::U32)? });
    }
    form.need_count(3)?;
    Ok(Op::Map { d: form.dst(0, t)?, a: form.src(1, t)?, wide: t == Type::U64, rank: form.src(2, Type::U32)? })
}
