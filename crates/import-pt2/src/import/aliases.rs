//! Tensors that share memory, made functional.
//!
//! A value of the program shows a storage through a chain of views. Writing to one replaces what the storage holds by a new value, put
//! together through the views backwards; other values of the storage then show the new contents through their own views. Where nothing is
//! written in place, nothing of this is left in the module.
//!
//! Whether `reshape` and the like give a view or a copy can depend on sizes that are not known. Such a value is in doubt: it is used like a copy,
//! and refused once that makes a difference.

use std::rc::Rc;

use tenon_graph_builder::{GraphBuilder, Handle};
use tenon_graph_dialect::DimExpr;
use tenon_graph_dialect::operators::{Concat, Slice};

use crate::error::OpError;

/// A value of the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ValueId(usize);

/// How a view shows what it is of.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum View {
    /// All elements in order, in this shape.
    Reshape(Vec<DimExpr>),
    /// Dimensions in another order.
    Transpose(Vec<i64>),
    /// Every n-th element of a range of each dimension.
    Slice(Slice),
    /// Repetition to a shape, which cannot be written through.
    Broadcast(Vec<DimExpr>),
}

impl View {
    pub(crate) fn apply(&self, builder: &mut GraphBuilder<'_>, of: Handle) -> Result<Handle, OpError> {
        Ok(match self {
            View::Reshape(shape) => builder.reshape(of, shape.clone())?,
            View::Transpose(permutation) => builder.transpose(of, permutation.clone())?,
            View::Broadcast(shape) => builder.broadcast(of, shape.clone())?,
            View::Slice(slice) => {
                let whole = builder.extents(of) == slice.sizes && slice.steps.iter().all(|step| *step == 1);
                if whole { of } else { builder.emit_one(slice.clone(), &[of])? }
            }
        })
    }

    /// What the view is of, after `part` was written to the view.
    pub(crate) fn write(&self, builder: &mut GraphBuilder<'_>, of: Handle, part: Handle) -> Result<Handle, OpError> {
        Ok(match self {
            View::Reshape(_) => {
                let shape = builder.extents(of);
                builder.reshape(part, shape)?
            }
            View::Transpose(permutation) => {
                let mut inverse = vec![0; permutation.len()];
                for (place, axis) in permutation.iter().enumerate() {
                    inverse[*axis as usize] = place as i64;
                }
                builder.transpose(part, inverse)?
            }
            View::Broadcast(_) => {
                return Err(OpError::Alias("a tensor that repeats elements (`expand`) is written in place".to_owned()));
            }
            View::Slice(slice) => write_slice(builder, of, part, slice, 0)?,
        })
    }
}

/// `of` with `part` in place of the elements that the slice takes, axis by axis.
fn write_slice(
    builder: &mut GraphBuilder<'_>,
    of: Handle,
    part: Handle,
    slice: &Slice,
    first: usize,
) -> Result<Handle, OpError> {
    let sizes = builder.extents(of);
    let is_whole = |axis: usize| slice.sizes[axis] == sizes[axis] && slice.steps[axis] == 1;
    let Some(axis) = (first..sizes.len()).find(|axis| !is_whole(*axis)) else { return Ok(part) };
    if slice.steps[axis] != 1 {
        return Err(OpError::Option("writing in place to a slice with a step".to_owned()));
    }
    let large = || OpError::Option("a dimension this large".to_owned());
    let (start, size) = (slice.starts[axis].clone(), slice.sizes[axis].clone());
    let end = start.add(&size).ok_or_else(large)?;
    let rest = sizes[axis].sub(&end).ok_or_else(large)?;
    let middle = builder.slice(of, axis, start.clone(), size)?;
    let mut parts = vec![write_slice(builder, middle, part, slice, axis + 1)?];
    if start.as_constant() != Some(0) {
        parts.insert(0, builder.slice(of, axis, 0.into(), start)?);
    }
    if rest.as_constant() != Some(0) {
        parts.push(builder.slice(of, axis, end, rest)?);
    }
    Ok(match parts.as_slice() {
        [only] => *only,
        parts => builder.emit_one(Concat { axis: axis as i64 }, parts)?,
    })
}

struct Storage {
    holds: Handle,
    version: u32,
    /// Depth of nested graphs that it was made in.
    depth: usize,
}

struct Value {
    storage: usize,
    views: Rc<Vec<View>>,
    /// What it shows at `version` of its storage.
    shows: Handle,
    version: u32,
    /// A storage, at a version, that it may be a view of.
    doubt: Option<(usize, u32)>,
}

/// All values of a program and the storages that they show.
#[derive(Default)]
pub(crate) struct Aliases {
    storages: Vec<Storage>,
    values: Vec<Value>,
    /// Nested graphs around what is imported.
    pub(crate) depth: usize,
}

impl Aliases {
    /// A value with a storage of its own.
    pub(crate) fn fresh(&mut self, shows: Handle) -> ValueId {
        self.storages.push(Storage { holds: shows, version: 0, depth: self.depth });
        let storage = self.storages.len() - 1;
        self.push(Value { storage, views: Rc::default(), shows, version: 0, doubt: None })
    }

    fn push(&mut self, value: Value) -> ValueId {
        self.values.push(value);
        ValueId(self.values.len() - 1)
    }

    /// A view of a value.
    pub(crate) fn view(&mut self, builder: &mut GraphBuilder<'_>, of: ValueId, view: View) -> Result<ValueId, OpError> {
        let shows = self.read(builder, of)?;
        let shows = view.apply(builder, shows)?;
        let Value { storage, views, doubt, .. } = &self.values[of.0];
        let (storage, doubt) = (*storage, *doubt);
        let views = Rc::new(views.iter().cloned().chain([view]).collect());
        let version = self.storages[storage].version;
        Ok(self.push(Value { storage, views, shows, version, doubt }))
    }

    /// A value that may be a view of another one or a copy of it.
    pub(crate) fn doubtful(&mut self, of: ValueId, shows: Handle) -> ValueId {
        let storage = self.values[of.0].storage;
        let version = self.storages[storage].version;
        let value = self.fresh(shows);
        self.values[value.0].doubt = Some((storage, version));
        value
    }

    /// What a value shows now.
    pub(crate) fn read(&mut self, builder: &mut GraphBuilder<'_>, value: ValueId) -> Result<Handle, OpError> {
        let Value { storage, version, shows, doubt, .. } = &self.values[value.0];
        let known = |(storage, version): &(usize, u32)| self.storages[*storage].version == *version;
        if !doubt.iter().all(known) {
            return Err(OpError::Alias(
                "an operand may share memory with a tensor that was written in place since it was made".to_owned(),
            ));
        }
        let Storage { holds, version: now, .. } = self.storages[*storage];
        if now == *version {
            return Ok(*shows);
        }
        let mut shows = holds;
        for view in self.values[value.0].views.clone().iter() {
            shows = view.apply(builder, shows)?;
        }
        let value = &mut self.values[value.0];
        (value.shows, value.version) = (shows, now);
        Ok(shows)
    }

    /// Writes to a value in place.
    pub(crate) fn write(&mut self, builder: &mut GraphBuilder<'_>, value: ValueId, new: Handle) -> Result<(), OpError> {
        let Value { storage, views, doubt, .. } = &self.values[value.0];
        let (storage, views) = (*storage, views.clone());
        if doubt.is_some() {
            return Err(OpError::Alias(
                "a tensor is written in place that may be a copy or a view of another".to_owned(),
            ));
        }
        let Storage { holds, version, depth } = self.storages[storage];
        if depth < self.depth {
            return Err(OpError::Alias("a nested graph writes to a tensor of the graph around it".to_owned()));
        }
        let mut shown = vec![holds];
        for view in views.iter() {
            let next = view.apply(builder, shown[shown.len() - 1])?;
            shown.push(next);
        }
        let mut part = new;
        for (view, of) in views.iter().zip(&shown).rev() {
            part = view.write(builder, *of, part)?;
        }
        self.storages[storage].holds = part;
        self.storages[storage].version = version + 1;
        let value = &mut self.values[value.0];
        (value.shows, value.version) = (new, version + 1);
        Ok(())
    }

    /// Whether a value's storage was written.
    pub(crate) fn is_written(&self, value: ValueId) -> bool {
        self.storages[self.values[value.0].storage].version != 0
    }
}
