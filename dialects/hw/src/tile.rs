//! Building tile programs: one method an operation, with types followed for the caller.

use tenon_ir::{Block, Builder, Value};
use tenon_layout::{SharedLayout, TileLayout};
use tenon_tensor::DType;

use crate::scalar::Scalar;
use crate::{HwError, SharedType, TileType};

/// A tile value with its type.
#[derive(Clone)]
pub struct Tile<'m> {
    /// The value.
    pub value: Value<'m>,
    /// Its type.
    pub ty: TileType,
}

/// Shared memory with its type.
#[derive(Clone)]
pub struct Shared<'m> {
    /// The value.
    pub value: Value<'m>,
    /// Its type.
    pub ty: SharedType,
}

/// How a load or store addresses memory.
#[derive(Clone, Copy)]
pub struct Access {
    /// Registers in a row that address consecutive, aligned elements under one mask.
    pub contiguity: u32,
    /// Registers in a row that address the same element.
    pub uniform: u32,
}

impl Default for Access {
    fn default() -> Self {
        Access { contiguity: 1, uniform: 1 }
    }
}

/// Maker of tile operations at a builder's place.
#[derive(Clone, Copy)]
pub struct TileBuilder<'m> {
    builder: Builder<'m>,
}

impl<'m> TileBuilder<'m> {
    /// Operations at this place.
    pub fn new(builder: Builder<'m>) -> Self {
        TileBuilder { builder }
    }

    /// The place.
    pub fn builder(self) -> Builder<'m> {
        self.builder
    }

    /// Scalar code at the same place.
    pub fn scalar(self) -> Scalar<'m> {
        Scalar::new(self.builder)
    }

    fn tile(self, value: Value<'m>, ty: TileType) -> Tile<'m> {
        Tile { value, ty }
    }

    /// Index of the block along a grid axis, i32.
    pub fn program_id(self, axis: i64) -> Result<Value<'m>, HwError> {
        let context = self.builder.context();
        Ok(self
            .builder
            .op("hw.program_id")
            .attribute("axis", context.i64(axis))
            .results(&[context.i32_type()])
            .value()?)
    }

    /// 0, 1, 2, … along a dimension, i32.
    pub fn iota(self, dimension: usize, layout: &TileLayout) -> Result<Tile<'m>, HwError> {
        let context = self.builder.context();
        let ty = TileType::new(DType::I32, layout.clone());
        let value = self
            .builder
            .op("hw.iota")
            .attribute("dimension", context.i64(dimension as i64))
            .results(&[ty.to_type(context)?])
            .value()?;
        Ok(self.tile(value, ty))
    }

    /// One scalar in every place.
    pub fn splat(self, value: Value<'m>, element: DType, layout: &TileLayout) -> Result<Tile<'m>, HwError> {
        let ty = TileType::new(element, layout.clone());
        let value =
            self.builder.op("hw.splat").operands(&[value]).results(&[ty.to_type(self.builder.context())?]).value()?;
        Ok(self.tile(value, ty))
    }

    /// Zero in every place.
    pub fn zeros(self, element: DType, layout: &TileLayout) -> Result<Tile<'m>, HwError> {
        self.splat(self.scalar().zero(element)?, element, layout)
    }

    /// Scalar code over tiles of one layout; `results` are the element types of what it yields.
    pub fn map(
        self,
        inputs: &[&Tile<'m>],
        layout: &TileLayout,
        results: &[DType],
        body: impl FnOnce(Scalar<'m>, &[Value<'m>]) -> Result<Vec<Value<'m>>, HwError>,
    ) -> Result<Vec<Tile<'m>>, HwError> {
        let context = self.builder.context();
        let types: Vec<_> = results.iter().map(|element| TileType::new(*element, layout.clone())).collect();
        let raw = types.iter().map(|ty| ty.to_type(context)).collect::<Result<Vec<_>, _>>()?;
        let operands: Vec<_> = inputs.iter().map(|tile| tile.value).collect();
        let op = self.builder.op("hw.map").operands(&operands).results(&raw).regions(1).build()?;
        let scalar = self.scalar();
        let arguments: Vec<_> =
            inputs.iter().map(|tile| (scalar.ty(tile.ty.element), self.builder.location())).collect();
        let block = append_block(op, &arguments)?;
        let inner = self.builder.in_block(block);
        let yielded = body(Scalar::new(inner), &block.arguments())?;
        inner.op("hw.yield").operands(&yielded).build()?;
        Ok(op.results().into_iter().zip(types).map(|(value, ty)| self.tile(value, ty)).collect())
    }

    /// [`Self::map`] with one result.
    pub fn map1(
        self,
        inputs: &[&Tile<'m>],
        layout: &TileLayout,
        result: DType,
        body: impl FnOnce(Scalar<'m>, &[Value<'m>]) -> Result<Value<'m>, HwError>,
    ) -> Result<Tile<'m>, HwError> {
        let mut tiles = self.map(inputs, layout, &[result], |scalar, values| Ok(vec![body(scalar, values)?]))?;
        tiles.pop().ok_or_else(|| HwError::semantic("hw.map", "has no result"))
    }

    /// Elements at pointer + offset; where the mask is false, `other`.
    pub fn load(
        self,
        pointer: Value<'m>,
        offsets: &Tile<'m>,
        mask: Option<(&Tile<'m>, Value<'m>)>,
        element: DType,
        access: Access,
    ) -> Result<Tile<'m>, HwError> {
        let context = self.builder.context();
        let ty = offsets.ty.with_element(element);
        let mut operands = vec![pointer, offsets.value];
        if let Some((mask, other)) = mask {
            operands.extend([mask.value, other]);
        }
        let present = i32::from(mask.is_some());
        let value = self
            .builder
            .op("hw.load")
            .operands(&operands)
            .segments(&[1, 1, present, present])
            .attribute("contiguity", context.i64(i64::from(access.contiguity)))
            .attribute("uniform", context.i64(i64::from(access.uniform)))
            .results(&[ty.to_type(context)?])
            .value()?;
        Ok(self.tile(value, ty))
    }

    /// Elements to pointer + offset where the mask holds.
    pub fn store(
        self,
        pointer: Value<'m>,
        offsets: &Tile<'m>,
        value: &Tile<'m>,
        mask: Option<&Tile<'m>>,
        contiguity: u32,
    ) -> Result<(), HwError> {
        let mut operands = vec![pointer, offsets.value, value.value];
        operands.extend(mask.map(|mask| mask.value));
        let contiguity = self.builder.context().i64(i64::from(contiguity));
        self.builder.op("hw.store").operands(&operands).attribute("contiguity", contiguity).build()?;
        Ok(())
    }

    /// Shared memory for the kernel's life.
    pub fn alloc(self, slots: u32, element: DType, layout: SharedLayout) -> Result<Shared<'m>, HwError> {
        let ty = SharedType { slots, element, layout };
        let value = self.builder.op("hw.alloc").results(&[ty.to_type(self.builder.context())?]).value()?;
        Ok(Shared { value, ty })
    }

    /// Tile from a slot of shared memory, in the given layout.
    pub fn local_load(self, shared: &Shared<'m>, slot: Value<'m>, layout: &TileLayout) -> Result<Tile<'m>, HwError> {
        let ty = TileType::new(shared.ty.element, layout.clone());
        let value = self
            .builder
            .op("hw.local_load")
            .operands(&[shared.value, slot])
            .results(&[ty.to_type(self.builder.context())?])
            .value()?;
        Ok(self.tile(value, ty))
    }

    /// Tile to a slot of shared memory.
    pub fn local_store(self, tile: &Tile<'m>, shared: &Shared<'m>, slot: Value<'m>) -> Result<(), HwError> {
        self.builder.op("hw.local_store").operands(&[tile.value, shared.value, slot]).build()?;
        Ok(())
    }

    /// Asynchronous copy to a slot of shared memory; zeros where the mask is false.
    pub fn async_copy(
        self,
        pointer: Value<'m>,
        offsets: &Tile<'m>,
        mask: Option<&Tile<'m>>,
        shared: &Shared<'m>,
        slot: Value<'m>,
        contiguity: u32,
    ) -> Result<(), HwError> {
        let mut operands = vec![pointer, offsets.value, shared.value, slot];
        operands.extend(mask.map(|mask| mask.value));
        let contiguity = self.builder.context().i64(i64::from(contiguity));
        self.builder.op("hw.async_copy").operands(&operands).attribute("contiguity", contiguity).build()?;
        Ok(())
    }

    /// Closes a group of asynchronous copies.
    pub fn async_commit(self) -> Result<(), HwError> {
        self.builder.op("hw.async_commit").build()?;
        Ok(())
    }

    /// Waits until at most `pending` groups of the thread are open.
    pub fn async_wait(self, pending: u32) -> Result<(), HwError> {
        let pending = self.builder.context().i64(i64::from(pending));
        self.builder.op("hw.async_wait").attribute("pending", pending).build()?;
        Ok(())
    }

    /// Barrier of the block.
    pub fn barrier(self) -> Result<(), HwError> {
        self.builder.op("hw.barrier").build()?;
        Ok(())
    }

    /// An arrival of the block at the i32 at pointer + index: how many of `count` blocks arrived before it. What they wrote before theirs is
    /// visible behind it.
    pub fn arrive(self, pointer: Value<'m>, index: Value<'m>, count: Value<'m>) -> Result<Value<'m>, HwError> {
        let ty = self.builder.context().i32_type();
        Ok(self.builder.op("hw.arrive").operands(&[pointer, index, count]).results(&[ty]).value()?)
    }

    /// Code that runs where a scalar condition holds.
    pub fn when(
        self,
        condition: Value<'m>,
        body: impl FnOnce(TileBuilder<'m>) -> Result<(), HwError>,
    ) -> Result<(), HwError> {
        let op = self.builder.op("scf.if").operands(&[condition]).regions(2).build()?;
        let inner = self.builder.in_block(append_block(op, &[])?);
        body(TileBuilder::new(inner))?;
        inner.op("scf.yield").build()?;
        Ok(())
    }

    /// A dimension of size 1 put in.
    pub fn expand_dims(self, tile: &Tile<'m>, dimension: usize) -> Result<Tile<'m>, HwError> {
        let context = self.builder.context();
        let ty = TileType::new(tile.ty.element, tile.ty.layout.expand_dim(dimension)?);
        let value = self
            .builder
            .op("hw.expand_dims")
            .operands(&[tile.value])
            .attribute("dimension", context.i64(dimension as i64))
            .results(&[ty.to_type(context)?])
            .value()?;
        Ok(self.tile(value, ty))
    }

    /// Dimensions of size 1 repeated to the shape of `layout`, in that layout. The tile must be its projection: [`Self::spread`] makes it so.
    pub fn broadcast(self, tile: &Tile<'m>, layout: &TileLayout) -> Result<Tile<'m>, HwError> {
        let ty = TileType::new(tile.ty.element, layout.clone());
        let value = self
            .builder
            .op("hw.broadcast")
            .operands(&[tile.value])
            .results(&[ty.to_type(self.builder.context())?])
            .value()?;
        Ok(self.tile(value, ty))
    }

    /// A one-dimensional tile along `dimension` of a tile in `layout`, repeated along all others. It should be in the layout that
    /// [`line_layout`] gives; another one is converted.
    pub fn spread(self, tile: &Tile<'m>, dimension: usize, layout: &TileLayout) -> Result<Tile<'m>, HwError> {
        let line = line_layout(layout, dimension)?;
        let mut tile = if tile.ty.layout == line { tile.clone() } else { self.convert_layout(tile, &line)? };
        for other in 0..layout.rank() {
            if other != dimension {
                tile = self.expand_dims(&tile, other)?;
            }
        }
        if tile.ty.layout == *layout { Ok(tile) } else { self.broadcast(&tile, layout) }
    }

    /// The same tile in another layout.
    pub fn convert_layout(self, tile: &Tile<'m>, layout: &TileLayout) -> Result<Tile<'m>, HwError> {
        if tile.ty.layout == *layout {
            return Ok(tile.clone());
        }
        let ty = TileType::new(tile.ty.element, layout.clone());
        let value = self
            .builder
            .op("hw.convert_layout")
            .operands(&[tile.value])
            .results(&[ty.to_type(self.builder.context())?])
            .value()?;
        Ok(self.tile(value, ty))
    }

    /// `a · b + c`; `instruction` is a row of the matrix-instruction table or `fma`.
    pub fn mma(self, instruction: &str, a: &Tile<'m>, b: &Tile<'m>, c: &Tile<'m>) -> Result<Tile<'m>, HwError> {
        let context = self.builder.context();
        let value = self
            .builder
            .op("hw.mma")
            .operands(&[a.value, b.value, c.value])
            .attribute("instruction", context.string(instruction))
            .results(&[c.ty.to_type(context)?])
            .value()?;
        Ok(self.tile(value, c.ty.clone()))
    }

    /// Reduction along a dimension. The body gets the accumulated elements of all inputs, then the new ones.
    pub fn reduce(
        self,
        dimension: usize,
        inputs: &[&Tile<'m>],
        body: impl FnOnce(Scalar<'m>, &[Value<'m>], &[Value<'m>]) -> Result<Vec<Value<'m>>, HwError>,
    ) -> Result<Vec<Tile<'m>>, HwError> {
        let types = inputs
            .iter()
            .map(|tile| Ok(TileType::new(tile.ty.element, tile.ty.layout.slice(dimension)?)))
            .collect::<Result<Vec<_>, HwError>>()?;
        self.along("hw.reduce", dimension, inputs, types, body)
    }

    /// Inclusive scan along a dimension, element i combining elements 0 to i. The body gets the combined elements before of all inputs,
    /// then the new ones. The layout is one that [`tenon_layout::ScanPlan`] knows a plan for.
    pub fn scan(
        self,
        dimension: usize,
        inputs: &[&Tile<'m>],
        body: impl FnOnce(Scalar<'m>, &[Value<'m>], &[Value<'m>]) -> Result<Vec<Value<'m>>, HwError>,
    ) -> Result<Vec<Tile<'m>>, HwError> {
        let types = inputs.iter().map(|tile| tile.ty.clone()).collect();
        self.along("hw.scan", dimension, inputs, types, body)
    }

    /// `hw.reduce` or `hw.scan`.
    fn along(
        self,
        name: &str,
        dimension: usize,
        inputs: &[&Tile<'m>],
        types: Vec<TileType>,
        body: impl FnOnce(Scalar<'m>, &[Value<'m>], &[Value<'m>]) -> Result<Vec<Value<'m>>, HwError>,
    ) -> Result<Vec<Tile<'m>>, HwError> {
        let context = self.builder.context();
        let raw = types.iter().map(|ty| ty.to_type(context)).collect::<Result<Vec<_>, _>>()?;
        let operands: Vec<_> = inputs.iter().map(|tile| tile.value).collect();
        let op = self
            .builder
            .op(name)
            .operands(&operands)
            .attribute("dimension", context.i64(dimension as i64))
            .results(&raw)
            .regions(1)
            .build()?;
        let scalar = self.scalar();
        let one: Vec<_> = inputs.iter().map(|tile| (scalar.ty(tile.ty.element), self.builder.location())).collect();
        let block = append_block(op, &[one.clone(), one].concat())?;
        let inner = self.builder.in_block(block);
        let arguments = block.arguments();
        let (accumulated, new) = arguments.split_at(inputs.len());
        let yielded = body(Scalar::new(inner), accumulated, new)?;
        inner.op("hw.yield").operands(&yielded).build()?;
        Ok(op.results().into_iter().zip(types).map(|(value, ty)| self.tile(value, ty)).collect())
    }

    /// `scf.for` over i32 from `lower` below `upper` that carries tiles.
    pub fn for_loop(
        self,
        lower: Value<'m>,
        upper: Value<'m>,
        step: Value<'m>,
        carried: &[Tile<'m>],
        body: impl FnOnce(TileBuilder<'m>, Value<'m>, &[Tile<'m>]) -> Result<Vec<Tile<'m>>, HwError>,
    ) -> Result<Vec<Tile<'m>>, HwError> {
        self.for_loop_with(lower, upper, step, &[], carried, |inner, position, _, tiles| {
            Ok((Vec::new(), body(inner, position, tiles)?))
        })
    }

    /// The same, carrying scalars besides, which end with the loop.
    pub fn for_loop_with(
        self,
        lower: Value<'m>,
        upper: Value<'m>,
        step: Value<'m>,
        scalars: &[Value<'m>],
        carried: &[Tile<'m>],
        body: impl FnOnce(
            TileBuilder<'m>,
            Value<'m>,
            &[Value<'m>],
            &[Tile<'m>],
        ) -> Result<(Vec<Value<'m>>, Vec<Tile<'m>>), HwError>,
    ) -> Result<Vec<Tile<'m>>, HwError> {
        let initial = scalars.iter().copied().chain(carried.iter().map(|tile| tile.value));
        let operands: Vec<_> = [lower, upper, step].into_iter().chain(initial.clone()).collect();
        let types: Vec<_> = initial.map(|value| value.ty()).collect();
        let op = self.builder.op("scf.for").operands(&operands).results(&types).regions(1).build()?;
        let arguments: Vec<_> =
            std::iter::once(lower.ty()).chain(types).map(|ty| (ty, self.builder.location())).collect();
        let block = append_block(op, &arguments)?;
        let inner = self.builder.in_block(block);
        let values = block.arguments();
        let (own, rest) = values[1..].split_at(scalars.len());
        let tiles: Vec<_> = rest.iter().zip(carried).map(|(value, tile)| self.tile(*value, tile.ty.clone())).collect();
        let (next, yielded) = body(TileBuilder::new(inner), values[0], own, &tiles)?;
        let yielded: Vec<_> = next.into_iter().chain(yielded.iter().map(|tile| tile.value)).collect();
        inner.op("scf.yield").operands(&yielded).build()?;
        let results = op.results().into_iter().skip(scalars.len());
        Ok(results.zip(carried).map(|(value, tile)| self.tile(value, tile.ty.clone())).collect())
    }
}

/// The layout of a one-dimensional tile along `dimension` of a tile in `layout` that [`TileBuilder::spread`] needs no conversion for.
pub fn line_layout(layout: &TileLayout, dimension: usize) -> Result<TileLayout, HwError> {
    let mut line = layout.clone();
    for other in (0..layout.rank()).rev() {
        if other != dimension {
            line = line.slice(other)?;
        }
    }
    Ok(line)
}

fn append_block<'m>(
    op: tenon_ir::Op<'m>,
    arguments: &[(tenon_ir::Type<'m>, tenon_ir::Location<'m>)],
) -> Result<Block<'m>, HwError> {
    let region = op.region(0).ok_or_else(|| HwError::semantic(&op.name(), "has no region"))?;
    Ok(region.append_block(arguments)?)
}
