#layout = #hw.layout<reg = [[0, 1]], lane = [[0, 2], [0, 4], [0, 8], [0, 16], [1, 0]], warp = [[2, 0]]>
#layout1 = #hw.layout<reg = [[1, 0]], lane = [[2, 0], [0, 1], [0, 2], [0, 4], [0, 8]], warp = [[0, 16]]>
#loc1 = loc("model.onnx":1:1)
module {
  hw.kernel @convert target "sm_80" warps 2 grid [1] {
  ^bb0(%arg0: !llvm.ptr<1> loc("model.onnx":1:1), %arg1: !llvm.ptr<1> loc("model.onnx":1:1)):
    %0 = hw.iota 0 : <[4, 32] x i32, #layout> loc(#loc1)
    %1 = hw.iota 1 : <[4, 32] x i32, #layout> loc(#loc1)
    %2 = hw.map(%0, %1) : (!hw.tile<[4, 32] x i32, #layout>, !hw.tile<[4, 32] x i32, #layout>) -> !hw.tile<[4, 32] x i32, #layout> {
    ^bb0(%arg2: i32 loc("model.onnx":1:1), %arg3: i32 loc("model.onnx":1:1)):
      %c0_i32 = arith.constant 0 : i32 loc(#loc1)
      %c4_i32 = arith.constant 4 : i32 loc(#loc1)
      %8 = arith.muli %c0_i32, %c4_i32 : i32 loc(#loc1)
      %9 = arith.addi %8, %arg2 : i32 loc(#loc1)
      %c32_i32 = arith.constant 32 : i32 loc(#loc1)
      %10 = arith.muli %9, %c32_i32 : i32 loc(#loc1)
      %11 = arith.addi %10, %arg3 : i32 loc(#loc1)
      hw.yield %11 : i32 loc(#loc1)
    } loc(#loc1)
    %3 = hw.load %arg0[%2] : !llvm.ptr<1>, <[4, 32] x i32, #layout> -> <[4, 32] x f32, #layout> loc(#loc1)
    %4 = hw.convert_layout %3 : <[4, 32] x f32, #layout> -> <[4, 32] x f32, #layout1> loc(#loc1)
    %5 = hw.iota 0 : <[4, 32] x i32, #layout1> loc(#loc1)
    %6 = hw.iota 1 : <[4, 32] x i32, #layout1> loc(#loc1)
    %7 = hw.map(%5, %6) : (!hw.tile<[4, 32] x i32, #layout1>, !hw.tile<[4, 32] x i32, #layout1>) -> !hw.tile<[4, 32] x i32, #layout1> {
    ^bb0(%arg2: i32 loc("model.onnx":1:1), %arg3: i32 loc("model.onnx":1:1)):
      %c0_i32 = arith.constant 0 : i32 loc(#loc1)
      %c4_i32 = arith.constant 4 : i32 loc(#loc1)
      %8 = arith.muli %c0_i32, %c4_i32 : i32 loc(#loc1)
      %9 = arith.addi %8, %arg2 : i32 loc(#loc1)
      %c32_i32 = arith.constant 32 : i32 loc(#loc1)
      %10 = arith.muli %9, %c32_i32 : i32 loc(#loc1)
      %11 = arith.addi %10, %arg3 : i32 loc(#loc1)
      hw.yield %11 : i32 loc(#loc1)
    } loc(#loc1)
    hw.store %4, %arg1[%7] : <[4, 32] x f32, #layout1>, !llvm.ptr<1>, <[4, 32] x i32, #layout1> loc(#loc1)
    hw.return loc(#loc1)
  } loc(#loc1)
} loc(#loc)
#loc = loc(unknown)
