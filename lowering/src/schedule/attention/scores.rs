//! From a tile of products to weights: scale, cap and masks; the running maximum and sum of each row.

use tenon_graph_dialect::operators::Causal;
use tenon_hw_dialect::{FloatPredicate, IntegerPredicate, Scalar, Tile, TileBuilder};
use tenon_ir::{IrError, Value};
use tenon_tensor::DType;

use super::tile::BlockTile;
use crate::LoweringError;
use crate::schedule::body::ValueRef;
use crate::schedule::evaluate::{Evaluator, Mask, and_masks, map};
use crate::schedule::index::{Coordinate, Index, common, line};
use crate::schedule::reduce::below;
use crate::schedule::scalar::{self, compute_type};

/// Where a block stands: batch, head, its first query.
#[derive(Clone, Copy)]
pub(super) struct Place<'m> {
    pub(super) batch: Value<'m>,
    pub(super) head: Value<'m>,
    pub(super) query: Value<'m>,
}

/// How weights follow from scores.
#[derive(Clone, Copy, PartialEq)]
enum Exponential {
    /// 2^(factor · (product − maximum)), the products as they are.
    Products { factor: f64 },
    /// e^(score − maximum) by the hardware's power of two.
    Scores,
    /// The same by the elementary function.
    Exact,
}

/// The softmax of a block as it goes.
pub(super) struct Softmax<'p, 'b, 'm> {
    pub(super) tile: BlockTile<'p>,
    pub(super) evaluator: &'p Evaluator<'b, 'm>,
    pub(super) place: Place<'m>,
}

/// What a tile of keys leaves: weights, by how much what was before counts less, and the running maximum and sum.
pub(super) struct Step<'m> {
    pub(super) weights: Tile<'m>,
    pub(super) decay: Tile<'m>,
    pub(super) maximum: Tile<'m>,
    pub(super) sum: Tile<'m>,
}

/// `2^x` as the hardware has it: 2 ulp, and 0 for results below the least normal number.
fn fast_exp2<'m>(code: Scalar<'m>, x: Value<'m>) -> Result<Value<'m>, IrError> {
    scalar::approximate(code, "math.exp2", &[x])
}

impl<'m> Softmax<'_, '_, 'm> {
    fn exponential(&self) -> Exponential {
        let attention = &self.tile.problem.attention;
        let factor = attention.scale * std::f64::consts::LOG2_E;
        match self.tile.by_instruction {
            false => Exponential::Exact,
            true => {
                let plain = attention.softcap.is_none() && self.tile.problem.mask.is_none();
                // A larger factor may lead out of the range of f32 where products do not.
                if plain && factor > 0.0 && factor <= 1.0 {
                    Exponential::Products { factor }
                } else {
                    Exponential::Scores
                }
            }
        }
    }

    /// Scores of the tile of keys from `key` on, -∞ where a key is hidden; products as they are where only their order counts so far.
    /// `edge`: some keys of the tile may not exist, or be of a time to come.
    fn scores(
        &self,
        builder: TileBuilder<'m>,
        products: &Tile<'m>,
        key: Value<'m>,
        edge: bool,
    ) -> Result<Tile<'m>, LoweringError> {
        let BlockTile { problem, scores: layout, .. } = self.tile;
        let attention = &problem.attention;
        let mut value = products.clone();
        if !matches!(self.exponential(), Exponential::Products { .. }) {
            value = map(builder, &[&value], DType::F32, |code, values| {
                let mut x = values[0];
                if attention.scale != 1.0 {
                    x = code.op("arith.mulf", &[x, code.float(attention.scale, DType::F32)?])?;
                }
                if let Some(cap) = attention.softcap {
                    let cap = code.float(cap, DType::F32)?;
                    let ratio = code.op("arith.divf", &[x, cap])?;
                    x = code.op("arith.mulf", &[code.op("math.tanh", &[ratio])?, cap])?;
                }
                Ok(x)
            })?;
        }
        let mut visible: Mask<'m> = None;
        let rows = line(builder, layout, 0, self.place.query)?;
        let columns = line(builder, layout, 1, key)?;
        let keys = u64::from(self.tile.keys);
        if edge && problem.keys.known().is_none_or(|known| known == 0 || known % keys != 0) {
            let inside = below(builder, &columns, problem.keys)?;
            visible = Some(builder.spread(&inside, 1, layout)?);
        }
        let exists = visible.clone();
        if edge && let Some(offset) = self.reach(builder.scalar())? {
            let last =
                builder.map1(&[&rows], &rows.ty.layout, DType::I32, |code, values| Ok(code.add(values[0], offset)?))?;
            let (last, columns) = (builder.spread(&last, 0, layout)?, builder.spread(&columns, 1, layout)?);
            let reached = builder.map1(&[&columns, &last], layout, DType::Bool, |code, values| {
                Ok(code.compare_int(IntegerPredicate::SignedLessEqual, values[0], values[1])?)
            })?;
            visible = and_masks(builder, &visible, &reached)?;
        }
        if let Some(mask) = problem.mask {
            let given = self.mask(builder, mask, &rows, &columns, exists)?;
            let dtype = self.evaluator.body.shape(mask).dtype;
            if dtype == DType::Bool {
                visible = and_masks(builder, &visible, &given)?;
            } else {
                let wide = |code: Scalar<'m>, given: Value<'m>| match dtype {
                    DType::F32 => Ok(given),
                    _ => code.convert("arith.extf", given, DType::F32),
                };
                if attention.plain_softmax {
                    value = builder.map1(&[&value, &given], layout, DType::F32, |code, values| {
                        let wide = wide(code, values[1])?;
                        Ok(code.op("arith.addf", &[values[0], wide])?)
                    })?;
                    return self.hide(builder, &visible, value);
                }
                let added = builder.map(&[&value, &given], layout, &[DType::F32, DType::Bool], |code, values| {
                    let wide = wide(code, values[1])?;
                    let hidden = code.float(f64::NEG_INFINITY, DType::F32)?;
                    let shown = code.compare_float(FloatPredicate::UnorderedNotEqual, wide, hidden)?;
                    Ok(vec![code.op("arith.addf", &[values[0], wide])?, shown])
                })?;
                let [sum, shown] = <[Tile<'m>; 2]>::try_from(added)
                    .map_err(|_| LoweringError::unsupported("hw.map", "not two results"))?;
                value = sum;
                visible = and_masks(builder, &visible, &shown)?;
            }
        }
        self.hide(builder, &visible, value)
    }

    /// Scores with -∞ where a key is not visible.
    fn hide(&self, builder: TileBuilder<'m>, visible: &Mask<'m>, scores: Tile<'m>) -> Result<Tile<'m>, LoweringError> {
        let Some(visible) = visible else { return Ok(scores) };
        map(builder, &[visible, &scores], DType::F32, |code, values| {
            Ok(code.select(values[0], values[1], code.float(f64::NEG_INFINITY, DType::F32)?)?)
        })
    }

    /// The last key that query 0 sees; none where no order hides keys.
    pub(super) fn reach(&self, code: Scalar<'m>) -> Result<Option<Value<'m>>, LoweringError> {
        let problem = self.tile.problem;
        Ok(match problem.attention.causal {
            None => None,
            Some(Causal::Start) => Some(code.i32(0)?),
            Some(Causal::End) if problem.queries == problem.keys => Some(code.i32(0)?),
            Some(Causal::End) => {
                Some(code.op("arith.subi", &[problem.keys.value(code)?, problem.queries.value(code)?])?)
            }
        })
    }

    /// The mask's elements at the tile.
    fn mask(
        &self,
        builder: TileBuilder<'m>,
        mask: ValueRef,
        rows: &Tile<'m>,
        columns: &Tile<'m>,
        mut exists: Mask<'m>,
    ) -> Result<Tile<'m>, LoweringError> {
        let BlockTile { problem, scores: layout, .. } = self.tile;
        if !problem.queries.is_multiple_of(self.tile.queries) {
            let inside = below(builder, rows, problem.queries)?;
            exists = and_masks(builder, &exists, &builder.spread(&inside, 0, layout)?)?;
        }
        let whole = |value: Value<'m>| -> Result<Coordinate<'m>, LoweringError> {
            Ok(Coordinate::Tile(builder.splat(value, DType::I32, layout)?))
        };
        let coordinates = vec![
            whole(self.place.batch)?,
            whole(self.place.head)?,
            Coordinate::Tile(builder.spread(rows, 0, layout)?),
            Coordinate::Tile(builder.spread(columns, 1, layout)?),
        ];
        let sizes = [problem.batch, problem.heads, problem.queries, problem.keys];
        let shape = self.evaluator.body.shape(mask);
        let width = layout.vector_width_along(1, shape.dtype.size() as u32)?;
        let index = Index::from_coordinates(&sizes, coordinates, layout, common(width, problem.keys));
        // A mask of equal shape lies as the scores do; else its own dimensions pick coordinates.
        let index = index.broadcast_from(builder, &shape.sizes)?;
        self.evaluator.value_at(builder, mask, &index, &exists)
    }

    /// Softmax goes on with a tile of products.
    pub(super) fn step(
        &self,
        builder: TileBuilder<'m>,
        products: &Tile<'m>,
        key: Value<'m>,
        edge: bool,
        [maximum, sum]: [&Tile<'m>; 2],
    ) -> Result<Step<'m>, LoweringError> {
        let layout = self.tile.scores;
        let exponential = self.exponential();
        let scores = self.scores(builder, products, key, edge)?;
        // NaN is left out here: it comes back by the weights.
        let greatest = self.across(builder, &scores, "arith.maxnumf")?;
        let lines = builder.map(
            &[maximum, &greatest],
            &maximum.ty.layout,
            &[DType::F32, DType::F32, DType::F32],
            |code, values| {
                let new = code.op("arith.maxnumf", values)?;
                // Where nothing is visible yet, every weight is e^-∞ and not e^(∞ - ∞).
                let none = code.float(f64::NEG_INFINITY, DType::F32)?;
                let zero = code.float(0.0, DType::F32)?;
                let nothing = code.compare_float(FloatPredicate::OrderedEqual, new, none)?;
                let base = code.select(nothing, zero, new)?;
                Ok(match exponential {
                    Exponential::Products { factor } => {
                        let factor = code.float(factor, DType::F32)?;
                        let shift = code.op("arith.negf", &[code.op("arith.mulf", &[base, factor])?])?;
                        let decay = fast_exp2(code, code.op("math.fma", &[values[0], factor, shift])?)?;
                        vec![new, shift, decay]
                    }
                    Exponential::Scores => {
                        let difference = code.op("arith.subf", &[values[0], base])?;
                        let factor = code.float(std::f64::consts::LOG2_E, DType::F32)?;
                        let decay = fast_exp2(code, code.op("arith.mulf", &[difference, factor])?)?;
                        vec![new, base, decay]
                    }
                    Exponential::Exact => {
                        let difference = code.op("arith.subf", &[values[0], base])?;
                        vec![new, base, code.op("math.exp", &[difference])?]
                    }
                })
            },
        )?;
        let [new, shift, decay] =
            <[Tile<'m>; 3]>::try_from(lines).map_err(|_| LoweringError::unsupported("hw.map", "not three results"))?;
        let shift = builder.spread(&shift, 0, layout)?;
        let weights = map(builder, &[&scores, &shift], DType::F32, |code, values| {
            Ok(match exponential {
                Exponential::Products { factor } => {
                    let factor = code.float(factor, DType::F32)?;
                    fast_exp2(code, code.op("math.fma", &[values[0], factor, values[1]])?)?
                }
                Exponential::Scores => {
                    let difference = code.op("arith.subf", values)?;
                    let factor = code.float(std::f64::consts::LOG2_E, DType::F32)?;
                    fast_exp2(code, code.op("arith.mulf", &[difference, factor])?)?
                }
                Exponential::Exact => code.op("math.exp", &[code.op("arith.subf", values)?])?,
            })
        })?;
        let added = self.across(builder, &weights, "arith.addf")?;
        let sum = builder.map1(&[sum, &decay, &added], &sum.ty.layout, DType::F32, |code, values| {
            Ok(code.op("math.fma", &[values[0], values[1], values[2]])?)
        })?;
        Ok(Step { weights, decay, maximum: new, sum })
    }

    /// Combines each row of a tile.
    fn across(&self, builder: TileBuilder<'m>, tile: &Tile<'m>, operation: &str) -> Result<Tile<'m>, LoweringError> {
        let reduced = builder.reduce(1, &[tile], |code, all, new| Ok(vec![code.op(operation, &[all[0], new[0]])?]))?;
        reduced.into_iter().next().ok_or_else(|| LoweringError::unsupported("hw.reduce", "no result"))
    }

    /// What a row's results are divided by, as a factor: 0 for a query that sees no key. A plain softmax has ∞ there, which makes NaN of its 0.
    pub(super) fn factor(&self, builder: TileBuilder<'m>, sum: &Tile<'m>) -> Result<Tile<'m>, LoweringError> {
        let problem = self.tile.problem;
        let plain = problem.attention.plain_softmax;
        let is_never_zero =
            if plain { problem.keys.known().is_some_and(|keys| keys > 0) } else { !problem.may_hide_all() };
        let keys = if plain && !is_never_zero { Some(problem.keys.value(builder.scalar())?) } else { None };
        Ok(builder.map1(&[sum], &sum.ty.layout, DType::F32, |code, values| {
            let (zero, one) = (code.float(0.0, DType::F32)?, code.float(1.0, DType::F32)?);
            let factor = code.op("arith.divf", &[one, values[0]])?;
            if is_never_zero {
                return Ok(factor);
            }
            let nothing = match keys {
                Some(keys) => code.compare_int(IntegerPredicate::Equal, keys, code.i32(0)?)?,
                None => code.compare_float(FloatPredicate::OrderedEqual, values[0], zero)?,
            };
            Ok(code.select(nothing, zero, factor)?)
        })?)
    }

    /// A result in its own type, of a sum and its row's factor.
    pub(super) fn result(
        &self,
        builder: TileBuilder<'m>,
        sums: &Tile<'m>,
        factor: &Tile<'m>,
    ) -> Result<Tile<'m>, LoweringError> {
        let dtype = self.tile.problem.dtype;
        debug_assert_eq!(compute_type(dtype), DType::F32);
        let factor = builder.spread(factor, 0, &sums.ty.layout)?;
        map(builder, &[sums, &factor], dtype, |code, values| {
            scalar::narrow(code, code.op("arith.mulf", values)?, dtype)
        })
    }
}
