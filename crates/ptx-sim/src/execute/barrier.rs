//! Block and cluster barriers (PTX ISA 9.7.13): `bar`, `barrier`, `barrier.cluster`, `bar.warp.sync`, and fences. A cluster is one block.
//!
//! The scheduler keeps the barriers; here is what an instruction asks of them.

use super::lanes::Slot;
use super::{proxy_fence, warp_ops};
use crate::decode::form::Form;
use crate::decode::types::Type;
use crate::error::Error;
use crate::memory::causality::Order;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    Sync,
    Arrive,
    /// Counts the predicates that hold into a 32-bit register.
    Popc {
        d: Slot,
        p: (Slot, bool),
    },
    And {
        d: Slot,
        p: (Slot, bool),
    },
    Or {
        d: Slot,
        p: (Slot, bool),
    },
    /// The two halves of the cluster's barrier.
    ClusterArrive,
    ClusterWait,
}

#[derive(Clone, Debug)]
pub(crate) struct Barrier {
    pub kind: Kind,
    /// All lanes of the warp must execute it together.
    pub aligned: bool,
    pub number: Slot,
    pub threads: Option<Slot>,
}

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Block(Barrier),
    Warp(warp_ops::Op),
    Proxy(proxy_fence::Op),
    /// A fence of a scope wider than the cluster, or another one.
    Fence(Option<Order>),
}

pub(crate) fn decode(form: &mut Form<'_, '_>) -> Result<Op, Error> {
    match form.name() {
        "membar" => {
            let scope = form.need(&["cta", "gl", "sys"])?;
            form.need_count(0)?;
            Ok(Op::Fence((scope != "cta").then_some(Order { acquire: true, release: true })))
        }
        "fence" => {
            if form.flag("proxy") {
                return Ok(Op::Proxy(proxy_fence::decode(form)?));
            }
            if form.flag("mbarrier_init") {
                // That an mbarrier is there is ordered like a write.
                form.need(&["release"])?;
                form.need(&["cluster"])?;
                form.need_count(0)?;
                return Ok(Op::Fence(None));
            }
            let semantics = form.pick(&["sc", "acq_rel", "acquire", "release"]);
            let scope = form.need(&["cta", "cluster", "gpu", "sys"])?;
            form.need_count(0)?;
            let order = Order { acquire: semantics != Some("release"), release: semantics != Some("acquire") };
            Ok(Op::Fence(matches!(scope, "gpu" | "sys").then_some(order)))
        }
        name => {
            if form.flag("warp") {
                form.need(&["sync"])?;
                form.need_count(1)?;
                return Ok(Op::Warp(warp_ops::Op::Sync { members: form.src(0, Type::B32)? }));
            }
            if name == "barrier" && form.flag("cluster") {
                let kind = match form.need(&["arrive", "wait"])? {
                    "arrive" => Kind::ClusterArrive,
                    _ => Kind::ClusterWait,
                };
                form.pick(&["release", "relaxed", "acquire"]);
                let aligned = form.flag("aligned");
                form.need_count(0)?;
                let number = form.d.constant32(0);
                return Ok(Op::Block(Barrier { kind, aligned, number, threads: None }));
            }
            let aligned = form.flag("aligned") || name == "bar";
            form.flag("cta");
            match form.need(&["sync", "arrive", "red"])? {
                "sync" => {
                    let threads = if form.count() == 2 { Some(form.src(1, Type::U32)?) } else { None };
                    if threads.is_none() {
                        form.need_count(1)?;
                    }
                    Ok(Op::Block(Barrier { kind: Kind::Sync, aligned, number: form.src(0, Type::U32)?, threads }))
                }
                "arrive" => {
                    form.need_count(2)?;
                    let (number, threads) = (form.src(0, Type::U32)?, Some(form.src(1, Type::U32)?));
                    Ok(Op::Block(Barrier { kind: Kind::Arrive, aligned, number, threads }))
                }
                _ => {
                    let operation = form.need(&["popc", "and", "or"])?;
                    let t = form.ty()?;
                    let last = form.count().saturating_sub(1);
                    let threads = if form.count() == 4 { Some(form.src(2, Type::U32)?) } else { None };
                    if threads.is_none() {
                        form.need_count(3)?;
                    }
                    let p = form.predicate(last)?;
                    let kind = match (operation, t) {
                        ("popc", Type::U32) => Kind::Popc { d: form.dst(0, t)?, p },
                        ("and", Type::Pred) => Kind::And { d: form.predicate_dst(0)?, p },
                        ("or", Type::Pred) => Kind::Or { d: form.predicate_dst(0)?, p },
                        _ => return form.unsupported(t),
                    };
                    Ok(Op::Block(Barrier { kind, aligned, number: form.src(1, Type::U32)?, threads }))
                }
            }
        }
    }
}
