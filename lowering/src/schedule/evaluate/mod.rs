//! Evaluation of a kernel's body at an index: the tile of values that a tensor of the body has where an [`Index`] looks.
//!
//! Reads go backwards through the body: a transpose permutes coordinates, a pad shifts them and masks, an elementwise function evaluates its
//! operands, and a kernel operand is loaded. So one mechanism serves pointwise kernels, data movement, and the prologues and epilogues of all
//! other families. One file an operator family.

mod convolution;
mod gather;
mod movement;
mod pointwise;
mod resize;
mod search_sorted;
mod window;

use std::cell::RefCell;
use std::collections::HashMap;

pub(in crate::schedule) use convolution::channels;
pub(crate) use pointwise::{cast_tile, map};

use tenon_graph_dialect::Operator;
use tenon_hw_dialect::{Access, IntegerPredicate, Tile, TileBuilder};
use tenon_ir::Value;
use tenon_layout::TileLayout;
use tenon_tensor::DType;

use crate::LoweringError;
use crate::schedule::body::{Body, ValueRef};
use crate::schedule::index::{Coordinate, Index, IndexKey, common};
use crate::schedule::scalar::{self, is_sub_byte, memory_type, register_type};
use crate::schedule::size::Size;

/// Evaluator of one kernel's body.
#[derive(Clone)]
pub struct Evaluator<'b, 'm> {
    /// The body.
    pub body: &'b Body,
    /// Pointers of the kernel's operands.
    pointers: &'b [Value<'m>],
    /// Values that are computed already, for places that look at exactly their own element: the anchor of a family.
    bound: HashMap<ValueRef, Tile<'m>>,
    /// Tiles made so far: a value that several operators read is computed once a place in the code.
    made: RefCell<HashMap<Made, Tile<'m>>>,
    /// Indices of broadcast operands made so far.
    broadcasts: RefCell<HashMap<(usize, IndexKey, Vec<Size>), Index<'m>>>,
}

/// What a tile was made for: block of code, value, where the places look, mask.
type Made = (usize, ValueRef, IndexKey, Option<usize>);

/// Places outside the mask may hold anything; loads do not touch memory there.
pub type Mask<'m> = Option<Tile<'m>>;

impl<'b, 'm> Evaluator<'b, 'm> {
    /// An evaluator whose body's operands lie behind pointers.
    pub fn new(body: &'b Body, pointers: &'b [Value<'m>]) -> Self {
        Evaluator { body, pointers, bound: HashMap::new(), made: RefCell::default(), broadcasts: RefCell::default() }
    }

    /// Binds a value to a tile: every evaluation at the index of that value's own tensor takes the tile.
    pub fn bind(&mut self, value: ValueRef, tile: Tile<'m>) {
        self.bound.insert(value, tile);
        self.made.borrow_mut().clear();
    }

    /// The tile of values that `value` has where `index` looks. `index.sizes` is the value's shape.
    pub fn value_at(
        &self,
        builder: TileBuilder<'m>,
        value: ValueRef,
        index: &Index<'m>,
        mask: &Mask<'m>,
    ) -> Result<Tile<'m>, LoweringError> {
        if let Some(tile) = self.bound.get(&value) {
            return if index.own && tile.ty.layout == index.layout {
                Ok(tile.clone())
            } else {
                Err(self.body.error("a computed value is read at another index than its own"))
            };
        }
        let key = (builder.builder().block().key(), value, index.key(), mask.as_ref().map(|mask| mask.value.key()));
        if let Some(tile) = self.made.borrow().get(&key) {
            return Ok(tile.clone());
        }
        let tile = self.make(builder, value, index, mask)?;
        self.made.borrow_mut().insert(key, tile.clone());
        Ok(tile)
    }

    /// `index` of a tensor that NumPy broadcasts to its shape, made once.
    pub(crate) fn broadcast_index(
        &self,
        builder: TileBuilder<'m>,
        index: &Index<'m>,
        sizes: &[Size],
    ) -> Result<Index<'m>, LoweringError> {
        let key = (builder.builder().block().key(), index.key(), sizes.to_vec());
        if let Some(found) = self.broadcasts.borrow().get(&key) {
            return Ok(found.clone());
        }
        let made = index.broadcast_from(builder, sizes)?;
        self.broadcasts.borrow_mut().insert(key, made.clone());
        Ok(made)
    }

    fn make(
        &self,
        builder: TileBuilder<'m>,
        value: ValueRef,
        index: &Index<'m>,
        mask: &Mask<'m>,
    ) -> Result<Tile<'m>, LoweringError> {
        match value {
            ValueRef::Input(input) => self.load(builder, input, index, mask),
            ValueRef::Node(node, result) => {
                let node = &self.body.nodes[node];
                let evaluated = match &node.operator {
                    Operator::Constant(constant) => self.constant(builder, &constant.value, index),
                    Operator::Iota(iota) => self.iota(builder, iota, node, index),
                    Operator::DimExtent(extent) => self.extent(builder, extent, node, index),
                    Operator::Elementwise(elementwise) => {
                        self.elementwise(builder, elementwise.function, node, index, mask)
                    }
                    Operator::Cast(cast) => self.cast(builder, cast, node, index, mask),
                    Operator::Bitcast(_) => self.bitcast(builder, node, index, mask),
                    Operator::Quantize(quantize) => self.quantize(builder, quantize, node, index, mask),
                    Operator::Dequantize(dequantize) => self.dequantize(builder, dequantize, node, index, mask),
                    Operator::Reshape(_) => self.reshape(builder, node, index, mask),
                    Operator::Transpose(transpose) => self.transpose(builder, transpose, node, index, mask),
                    Operator::Broadcast(_) => self.broadcast(builder, node, index, mask),
                    Operator::Slice(slice) => self.slice(builder, slice, node, index, mask),
                    Operator::Pad(pad) => self.pad(builder, pad, node, index, mask),
                    Operator::Concat(concat) => self.concat(builder, concat, node, index, mask),
                    Operator::Gather(gather) => self.gather(builder, gather, node, index, mask),
                    Operator::Window(window) => self.window(builder, window, node, index, mask),
                    Operator::Convolution(convolution) => self.convolution(builder, convolution, node, index, mask),
                    Operator::SearchSorted(_) => self.search_sorted(builder, node, index, mask),
                    Operator::Resize(resize) => self.resize(builder, resize, node, index, mask),
                    other => Err(LoweringError::unsupported(
                        other.name(),
                        format!(
                            "it cannot be computed element by element (result {result} of it is read inside another kernel)"
                        ),
                    )),
                };
                evaluated.map_err(|error| error.with_nodes(node.sources.clone()))
            }
        }
    }

    /// The places where an index that may reach outside looks inside, and the index.
    fn load(
        &self,
        builder: TileBuilder<'m>,
        input: usize,
        index: &Index<'m>,
        mask: &Mask<'m>,
    ) -> Result<Tile<'m>, LoweringError> {
        let shape = &self.body.inputs[input];
        let pointer = *self.pointers.get(input).ok_or_else(|| self.body.error("an operand has no pointer"))?;
        let memory = memory_type(shape.dtype);
        let offsets = index.linear(builder)?;
        let widest = (16 / memory.size() as u32).max(1);
        let contiguity = common(index.contiguity, *shape.sizes.last().unwrap_or(&Size::fixed(1))).min(widest);
        let access = Access { contiguity, uniform: 1 };
        let other = builder.scalar().zero(memory)?;
        let mask = mask.as_ref().map(|mask| (mask, other));
        let loaded = builder.load(pointer, &offsets, mask, memory, access)?;
        if is_sub_byte(shape.dtype) {
            // Bits of a byte above the element's own say nothing.
            return map(builder, &[&loaded], memory, |scalar, values| scalar::wrap(scalar, values[0], shape.dtype));
        }
        if shape.dtype != DType::Bool {
            return Ok(loaded);
        }
        Ok(builder.map1(&[&loaded], &index.layout, DType::Bool, |scalar, values| {
            let zero = scalar.int(0, DType::I8)?;
            Ok(scalar.compare_int(IntegerPredicate::NotEqual, values[0], zero)?)
        })?)
    }
}

/// Where the values of a kernel's result go.
#[derive(Clone, Copy)]
pub struct Destination<'b, 'm> {
    /// The kernel.
    pub body: &'b Body,
    /// Which of its results.
    pub output: usize,
    /// The memory that it is written to.
    pub pointer: Value<'m>,
}

impl<'b, 'm> Destination<'b, 'm> {
    /// The results of a kernel with their pointers.
    pub fn all(body: &'b Body, pointers: &'b [Value<'m>]) -> impl Iterator<Item = (ValueRef, Destination<'b, 'm>)> {
        let outputs = body.outputs.iter().zip(pointers).enumerate();
        outputs.map(move |(output, (value, pointer))| (*value, Destination { body, output, pointer: *pointer }))
    }
}

/// Stores a tile of a result's values where `index` looks in it.
pub fn store<'m>(
    builder: TileBuilder<'m>,
    target: Destination<'_, 'm>,
    index: &Index<'m>,
    value: &Tile<'m>,
    mask: &Mask<'m>,
) -> Result<(), LoweringError> {
    let Destination { body, output, pointer } = target;
    let dtype = body.shape(body.outputs[output]).dtype;
    let index = &body.placements[output].index(builder, index)?;
    let memory = memory_type(dtype);
    let value = if dtype == DType::Bool {
        builder.map1(&[value], &index.layout, memory, |scalar, values| {
            Ok(scalar.convert("arith.extui", values[0], memory)?)
        })?
    } else if is_sub_byte(dtype) {
        builder.map1(&[value], &index.layout, memory, |scalar, values| {
            Ok(scalar.op("arith.andi", &[values[0], scalar.int((1 << dtype.bits()) - 1, memory)?])?)
        })?
    } else {
        value.clone()
    };
    let offsets = index.linear(builder)?;
    let widest = (16 / memory.size() as u32).max(1);
    let contiguity = common(index.contiguity, *index.sizes.last().unwrap_or(&Size::fixed(1))).min(widest);
    Ok(builder.store(pointer, &offsets, &value, mask.as_ref(), contiguity)?)
}

/// A tile of one number.
pub(crate) fn splat<'m>(
    builder: TileBuilder<'m>,
    value: scalar::Number,
    dtype: DType,
    layout: &TileLayout,
) -> Result<Tile<'m>, LoweringError> {
    let value = scalar::constant(builder.scalar(), value, dtype)?;
    Ok(builder.splat(value, register_type(dtype), layout)?)
}

/// A coordinate as a tile.
pub(crate) fn coordinate_tile<'m>(
    builder: TileBuilder<'m>,
    coordinate: &Coordinate<'m>,
    layout: &TileLayout,
) -> Result<Tile<'m>, LoweringError> {
    match coordinate {
        Coordinate::Tile(tile) => Ok(tile.clone()),
        Coordinate::Constant(value) => Ok(builder.splat(builder.scalar().i32(*value)?, DType::I32, layout)?),
    }
}

/// Both masks.
pub(crate) fn and_masks<'m>(builder: TileBuilder<'m>, a: &Mask<'m>, b: &Tile<'m>) -> Result<Mask<'m>, LoweringError> {
    Ok(Some(match a {
        None => b.clone(),
        Some(a) => {
            builder.map1(&[a, b], &b.ty.layout, DType::Bool, |scalar, values| Ok(scalar.op("arith.andi", values)?))?
        }
    }))
}
