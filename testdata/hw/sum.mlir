#layout = #hw.layout<reg = [[1, 0]], lane = [[2, 0], [0, 1], [0, 2], [0, 4], [0, 8]], warp = [[0, 16]]>
#layout1 = #hw.layout<reg = [[1]], lane = [[2], [0], [0], [0], [0]], warp = [[0]]>
#loc1 = loc("model.onnx":1:1)
module {
  hw.kernel @sum target "sm_80" warps 2 grid [1] {
  ^bb0(%arg0: !llvm.ptr<1> loc("model.onnx":1:1), %arg1: !llvm.ptr<1> loc("model.onnx":1:1)):
    %0 = hw.iota 0 : <[4, 32] x i32, #layout> loc(#loc1)
    %1 = hw.iota 1 : <[4, 32] x i32, #layout> loc(#loc1)
    %2 = hw.map(%0, %1) : (!hw.tile<[4, 32] x i32, #layout>, !hw.tile<[4, 32] x i32, #layout>) -> !hw.tile<[4, 32] x i32, #layout> {
    ^bb0(%arg2: i32 loc("model.onnx":1:1), %arg3: i32 loc("model.onnx":1:1)):
      %c0_i32 = arith.constant 0 : i32 loc(#loc1)
      %c4_i32 = arith.constant 4 : i32 loc(#loc1)
      %7 = arith.muli %c0_i32, %c4_i32 : i32 loc(#loc1)
      %8 = arith.addi %7, %arg2 : i32 loc(#loc1)
      %c32_i32 = arith.constant 32 : i32 loc(#loc1)
      %9 = arith.muli %8, %c32_i32 : i32 loc(#loc1)
      %10 = arith.addi %9, %arg3 : i32 loc(#loc1)
      hw.yield %10 : i32 loc(#loc1)
    } loc(#loc1)
    %3 = hw.load %arg0[%2] : !llvm.ptr<1>, <[4, 32] x i32, #layout> -> <[4, 32] x f32, #layout> loc(#loc1)
    %4 = hw.reduce 1(%3) : (!hw.tile<[4, 32] x f32, #layout>) -> !hw.tile<[4] x f32, #layout1> {
    ^bb0(%arg2: f32 loc("model.onnx":1:1), %arg3: f32 loc("model.onnx":1:1)):
      %7 = arith.addf %arg2, %arg3 : f32 loc(#loc1)
      hw.yield %7 : f32 loc(#loc1)
    } loc(#loc1)
    %5 = hw.iota 0 : <[4] x i32, #layout1> loc(#loc1)
    %6 = hw.map(%5) : (!hw.tile<[4] x i32, #layout1>) -> !hw.tile<[4] x i32, #layout1> {
    ^bb0(%arg2: i32 loc("model.onnx":1:1)):
      %c0_i32 = arith.constant 0 : i32 loc(#loc1)
      %c4_i32 = arith.constant 4 : i32 loc(#loc1)
      %7 = arith.muli %c0_i32, %c4_i32 : i32 loc(#loc1)
      %8 = arith.addi %7, %arg2 : i32 loc(#loc1)
      hw.yield %8 : i32 loc(#loc1)
    } loc(#loc1)
    hw.store %4, %arg1[%6] : <[4] x f32, #layout1>, !llvm.ptr<1>, <[4] x i32, #layout1> loc(#loc1)
    hw.return loc(#loc1)
  } loc(#loc1)
} loc(#loc)
#loc = loc(unknown)
