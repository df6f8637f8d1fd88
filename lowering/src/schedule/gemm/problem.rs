//! A contraction or convolution as loops with affine accesses.

use tenon_graph_dialect::Operator;
use tenon_graph_dialect::operators::{Contract, Convolution};
use tenon_tensor::DType;

use crate::LoweringError;
use crate::schedule::body::{Body, ValueRef, strides};
use crate::schedule::evaluate::channels as channels_of;
use crate::schedule::size::{Size, is_wide};

/// Which index of the product a loop belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Axis {
    Batch,
    M,
    N,
    K,
}

/// A loop: its axis and its place among the axis's loops, slowest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Term {
    pub(super) axis: Axis,
    pub(super) position: usize,
    pub(super) coefficient: i32,
}

/// A dimension of an operand: the element at `(Σ coefficient · loop + offset) / divisor`.
#[derive(Debug, Clone)]
pub(super) struct OperandDim {
    pub(super) stride: Size,
    pub(super) size: Size,
    pub(super) terms: Vec<Term>,
    pub(super) offset: i32,
    pub(super) divisor: i32,
    /// Whether the coordinate may lie outside, or between elements; the element is 0 there.
    pub(super) checked: bool,
}

impl OperandDim {
    fn plain(size: Size, stride: Size, axis: Axis, position: usize) -> Self {
        let terms = vec![Term { axis, position, coefficient: 1 }];
        OperandDim { stride, size, terms, offset: 0, divisor: 1, checked: false }
    }

    /// Whether it is one loop's index as it is.
    pub(super) fn is_plain(&self, axis: Axis, position: usize) -> bool {
        !self.checked
            && self.offset == 0
            && self.divisor == 1
            && self.terms == [Term { axis, position, coefficient: 1 }]
    }
}

/// An operand of the product.
#[derive(Debug, Clone)]
pub(super) struct Operand {
    /// Value in the body.
    pub(super) value: ValueRef,
    pub(super) dtype: DType,
    /// Whether offsets need 64 bits.
    pub(super) wide: bool,
    pub(super) dims: Vec<OperandDim>,
}

/// C\[batch, m, n\] = Σₖ A\[batch, m, k\] · B\[batch, k, n\].
#[derive(Debug, Clone)]
pub(super) struct Problem {
    /// The contraction or convolution in the body.
    pub(super) anchor: usize,
    pub(super) accumulate: DType,
    pub(super) dtype: DType,
    pub(super) a: Operand,
    pub(super) b: Operand,
    /// Loops of each axis, slowest first, with their stride in the result (0 for k).
    pub(super) batch: Vec<(Size, Size)>,
    pub(super) m: Vec<(Size, Size)>,
    pub(super) n: Vec<(Size, Size)>,
    pub(super) k: Vec<(Size, Size)>,
}

impl Problem {
    pub(super) fn read(body: &Body) -> Result<Self, LoweringError> {
        enum Product<'b> {
            Contract(&'b Contract),
            Convolution(&'b Convolution),
        }
        let (anchor, product) = body.anchor(|node| match &node.operator {
            Operator::Contract(contract) => Some(Product::Contract(contract)),
            Operator::Convolution(convolution) => Some(Product::Convolution(convolution)),
            _ => None,
        })?;
        let mut problem = match product {
            Product::Contract(contract) => Self::of_contract(body, anchor, contract),
            Product::Convolution(convolution) => Self::of_convolution(body, anchor, convolution)?,
        };
        for axis in [Axis::Batch, Axis::M, Axis::N, Axis::K] {
            problem.drop_ones(axis);
            problem.merge(axis);
        }
        // Columns are what lies together in the result: the fastest loop should be one of n.
        let fastest =
            |loops: &[(Size, Size)]| loops.iter().map(|(_, stride)| stride.capacity()).min().unwrap_or(u64::MAX);
        if fastest(&problem.m) < fastest(&problem.n) {
            problem.transpose();
        }
        Ok(problem)
    }

    pub(super) fn loops(&self, axis: Axis) -> &[(Size, Size)] {
        match axis {
            Axis::Batch => &self.batch,
            Axis::M => &self.m,
            Axis::N => &self.n,
            Axis::K => &self.k,
        }
    }

    fn loops_mut(&mut self, axis: Axis) -> &mut Vec<(Size, Size)> {
        match axis {
            Axis::Batch => &mut self.batch,
            Axis::M => &mut self.m,
            Axis::N => &mut self.n,
            Axis::K => &mut self.k,
        }
    }

    /// Number of steps of an axis.
    pub(super) fn extent(&self, axis: Axis) -> Size {
        self.loops(axis).iter().map(|(size, _)| size).product()
    }

    fn of_contract(body: &Body, anchor: usize, contract: &Contract) -> Self {
        let node = &body.nodes[anchor];
        let result_strides = strides(&node.results[0].sizes);
        let mut loops: [Vec<(char, Size, Size)>; 4] = Default::default();
        let size_of = |label: char| {
            let find = |labels: &str, value: ValueRef| labels.find(label).map(|index| body.shape(value).sizes[index]);
            find(&contract.lhs, node.operands[0])
                .or_else(|| find(&contract.rhs, node.operands[1]))
                .unwrap_or(Size::fixed(1))
        };
        for (index, label) in contract.result.chars().enumerate() {
            let axis = match (contract.lhs.contains(label), contract.rhs.contains(label)) {
                (true, true) => Axis::Batch,
                (true, false) => Axis::M,
                _ => Axis::N,
            };
            loops[axis as usize].push((label, size_of(label), result_strides[index]));
        }
        for label in contract.summed() {
            loops[Axis::K as usize].push((label, size_of(label), Size::fixed(0)));
        }
        let operand = |labels: &str, value: ValueRef| {
            let shape = body.shape(value);
            let element_strides = strides(&shape.sizes);
            let dims = labels
                .chars()
                .enumerate()
                .filter_map(|(index, label)| {
                    [Axis::Batch, Axis::M, Axis::N, Axis::K].into_iter().find_map(|axis| {
                        let position = loops[axis as usize].iter().position(|(own, ..)| *own == label)?;
                        Some(OperandDim::plain(shape.sizes[index], element_strides[index], axis, position))
                    })
                })
                .collect();
            Operand { value, dtype: shape.dtype, wide: is_wide(&shape.sizes), dims }
        };
        let a = operand(&contract.lhs, node.operands[0]);
        let b = operand(&contract.rhs, node.operands[1]);
        let [batch, m, n, k] = loops.map(|axis| axis.into_iter().map(|(_, size, stride)| (size, stride)).collect());
        Problem { anchor, accumulate: contract.accumulate, dtype: contract.dtype, a, b, batch, m, n, k }
    }

    /// A is the weight (rows are output channels), B the input (columns are positions): the result's positions lie together.
    fn of_convolution(body: &Body, anchor: usize, convolution: &Convolution) -> Result<Self, LoweringError> {
        let node = &body.nodes[anchor];
        let input = body.shape(node.operands[0]);
        let weight = body.shape(node.operands[1]);
        let result = &node.results[0];
        let (input_strides, weight_strides, result_strides) = (input.strides(), weight.strides(), result.strides());
        let groups = convolution.groups as u32;
        let channels = Size::from(channels_of(input.sizes[1])? / groups);
        let outputs = Size::from(channels_of(result.sizes[1])? / groups);
        let groups = Size::from(groups);
        let spatial = input.sizes.len() - 2;
        let kernel = &weight.sizes[2..];
        let batch = vec![(groups, outputs * result_strides[1])];
        let m = vec![(outputs, result_strides[1])];
        let mut n = vec![(result.sizes[0], result_strides[0])];
        n.extend((0..spatial).map(|dim| (result.sizes[dim + 2], result_strides[dim + 2])));
        let mut k = vec![(channels, Size::fixed(0))];
        k.extend(kernel.iter().map(|size| (*size, Size::fixed(0))));
        // Weight [O, C/g, K…]: row group·outputs + m; transposed [C, O/g, K…]: row group·channels + k.
        let mut weight_dims = if convolution.transposed {
            vec![
                OperandDim::plain(groups, channels * weight_strides[0], Axis::Batch, 0),
                OperandDim::plain(channels, weight_strides[0], Axis::K, 0),
                OperandDim::plain(outputs, weight_strides[1], Axis::M, 0),
            ]
        } else {
            vec![
                OperandDim::plain(groups, outputs * weight_strides[0], Axis::Batch, 0),
                OperandDim::plain(outputs, weight_strides[0], Axis::M, 0),
                OperandDim::plain(channels, weight_strides[1], Axis::K, 0),
            ]
        };
        for dim in 0..spatial {
            weight_dims.push(OperandDim::plain(kernel[dim], weight_strides[dim + 2], Axis::K, dim + 1));
        }
        let mut input_dims = vec![
            OperandDim::plain(input.sizes[0], input_strides[0], Axis::N, 0),
            OperandDim::plain(groups, channels * input_strides[1], Axis::Batch, 0),
            OperandDim::plain(channels, input_strides[1], Axis::K, 0),
        ];
        for dim in 0..spatial {
            let (stride, dilation) = (convolution.strides[dim] as i32, convolution.dilations[dim] as i32);
            let pad = convolution.pad_begin[dim] as i32;
            let size = input.sizes[dim + 2];
            let place = |axis, position, coefficient| Term { axis, position, coefficient };
            let (position, cell) = ((Axis::N, dim + 1), (Axis::K, dim + 1));
            input_dims.push(if convolution.transposed {
                OperandDim {
                    stride: input_strides[dim + 2],
                    size,
                    terms: vec![place(position.0, position.1, 1), place(cell.0, cell.1, -dilation)],
                    offset: pad,
                    divisor: stride,
                    checked: true,
                }
            } else {
                let whole = pad == 0 && convolution.pad_end[dim] == 0 && kernel[dim] == 1 && stride == 1;
                // Of sizes that are known at launch only, the last window may reach beyond the input.
                let reaches_outside = match (result.sizes[dim + 2].known(), kernel[dim].known(), size.known()) {
                    (Some(result), Some(kernel), Some(size)) => {
                        let step = |count: u64, step: i32| (count as i64 - 1) * i64::from(step);
                        step(result, stride) + step(kernel, dilation) - i64::from(pad) >= size as i64
                    }
                    _ => true,
                };
                let mut terms = vec![place(position.0, position.1, stride)];
                if !whole {
                    terms.push(place(cell.0, cell.1, dilation));
                }
                OperandDim {
                    stride: input_strides[dim + 2],
                    size,
                    terms,
                    offset: -pad,
                    divisor: 1,
                    checked: !whole && (pad > 0 || reaches_outside),
                }
            });
        }
        let a =
            Operand { value: node.operands[1], dtype: weight.dtype, wide: is_wide(&weight.sizes), dims: weight_dims };
        let b = Operand { value: node.operands[0], dtype: input.dtype, wide: is_wide(&input.sizes), dims: input_dims };
        Ok(Problem { anchor, accumulate: convolution.accumulate, dtype: convolution.dtype, a, b, batch, m, n, k })
    }

    /// Removes loops of one step.
    fn drop_ones(&mut self, axis: Axis) {
        let mut position = 0;
        while position < self.loops(axis).len() {
            if self.loops(axis)[position].0 != 1 {
                position += 1;
                continue;
            }
            self.loops_mut(axis).remove(position);
            self.remove_term(axis, position);
        }
    }

    fn remove_term(&mut self, axis: Axis, position: usize) {
        for dim in self.a.dims.iter_mut().chain(&mut self.b.dims) {
            dim.terms.retain(|term| term.axis != axis || term.position != position);
            for term in dim.terms.iter_mut().filter(|term| term.axis == axis && term.position > position) {
                term.position -= 1;
            }
        }
    }

    /// Joins neighbouring loops that lie together in the result and in both operands.
    fn merge(&mut self, axis: Axis) {
        let mut position = 0;
        while position + 1 < self.loops(axis).len() {
            if !self.can_merge(axis, position) {
                position += 1;
                continue;
            }
            let outer = self.loops(axis)[position];
            self.loops_mut(axis)[position + 1].0 *= outer.0;
            self.loops_mut(axis).remove(position);
            for operand in [&mut self.a, &mut self.b] {
                operand.dims.retain(|dim| !dim.is_plain(axis, position));
                for dim in operand.dims.iter_mut().filter(|dim| dim.is_plain(axis, position + 1)) {
                    dim.size *= outer.0;
                }
            }
            self.remove_term(axis, position);
        }
    }

    fn can_merge(&self, axis: Axis, position: usize) -> bool {
        let loops = self.loops(axis);
        let ((_, outer_stride), (inner_size, inner_stride)) = (loops[position], loops[position + 1]);
        if outer_stride != inner_size * inner_stride {
            return false;
        }
        [&self.a, &self.b].into_iter().all(|operand| {
            let uses = |position: usize| {
                operand
                    .dims
                    .iter()
                    .filter(move |dim| dim.terms.iter().any(|term| term.axis == axis && term.position == position))
            };
            match (uses(position).count(), uses(position + 1).count()) {
                (0, 0) => true,
                (1, 1) => uses(position).zip(uses(position + 1)).all(|(outer, inner)| {
                    outer.is_plain(axis, position)
                        && inner.is_plain(axis, position + 1)
                        && outer.stride == inner_size * inner.stride
                }),
                _ => false,
            }
        })
    }

    /// Swaps the roles of rows and columns: Cᵀ = Bᵀ · Aᵀ.
    fn transpose(&mut self) {
        std::mem::swap(&mut self.a, &mut self.b);
        std::mem::swap(&mut self.m, &mut self.n);
        for term in self.a.dims.iter_mut().chain(&mut self.b.dims).flat_map(|dim| &mut dim.terms) {
            term.axis = match term.axis {
                Axis::M => Axis::N,
                Axis::N => Axis::M,
                other => other,
            };
        }
    }
}

impl Operand {
    /// Steps of `axis` that are consecutive, aligned elements in memory, at most `most`: a power of two.
    pub(super) fn contiguity(&self, loops: &[(Size, Size)], axis: Axis, most: u32) -> u32 {
        let Some((size, _)) = loops.last() else { return 1 };
        let position = loops.len() - 1;
        let Some(run) = self.dims.iter().find(|dim| dim.stride == 1 && dim.is_plain(axis, position)) else { return 1 };
        let mut width = most.min(size.power_of_two());
        for dim in &self.dims {
            if std::ptr::eq(dim, run) {
                continue;
            }
            let uses_axis = dim.terms.iter().any(|term| term.axis == axis && term.position == position);
            if uses_axis {
                return 1;
            }
            // A checked dimension of stride s moves the whole run by multiples of s.
            while width > 1 && !dim.stride.is_multiple_of(width) {
                width /= 2;
            }
        }
        width
    }
}
