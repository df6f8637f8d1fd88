#layout = #hw.layout<reg = [[0, 1], [0, 2], [0, 4], [8, 0]], lane = [[0, 8], [0, 16], [0, 32], [1, 0], [2, 0]], warp = [[4, 0]]>
#layout1 = #hw.layout<reg = [[0, 4], [0, 8], [0, 16], [0, 32]], lane = [[1, 0], [2, 0], [4, 0], [8, 0], [0, 1]], warp = [[0, 2]]>
#loc1 = loc("model.onnx":1:1)
#shared_layout = #hw.shared_layout<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32], [1, 8], [2, 16], [4, 32], [8, 0]]>
module {
  hw.kernel @async_copy target "sm_80" warps 2 grid [1] {
  ^bb0(%arg0: !llvm.ptr<1> loc("model.onnx":1:1), %arg1: !llvm.ptr<1> loc("model.onnx":1:1), %arg2: i64 loc("model.onnx":1:1)):
    %0 = hw.alloc : <1 x[16, 64] x f16, #shared_layout> loc(#loc1)
    %c0_i32 = arith.constant 0 : i32 loc(#loc1)
    %1 = hw.iota 0 : <[16, 64] x i32, #layout> loc(#loc1)
    %2 = hw.iota 1 : <[16, 64] x i32, #layout> loc(#loc1)
    %3 = hw.map(%1, %2) : (!hw.tile<[16, 64] x i32, #layout>, !hw.tile<[16, 64] x i32, #layout>) -> !hw.tile<[16, 64] x i32, #layout> {
    ^bb0(%arg3: i32 loc("model.onnx":1:1), %arg4: i32 loc("model.onnx":1:1)):
      %c0_i32_0 = arith.constant 0 : i32 loc(#loc1)
      %c16_i32 = arith.constant 16 : i32 loc(#loc1)
      %9 = arith.muli %c0_i32_0, %c16_i32 : i32 loc(#loc1)
      %10 = arith.addi %9, %arg3 : i32 loc(#loc1)
      %c64_i32 = arith.constant 64 : i32 loc(#loc1)
      %11 = arith.muli %10, %c64_i32 : i32 loc(#loc1)
      %12 = arith.addi %11, %arg4 : i32 loc(#loc1)
      hw.yield %12 : i32 loc(#loc1)
    } loc(#loc1)
    %4 = hw.map(%3) : (!hw.tile<[16, 64] x i32, #layout>) -> !hw.tile<[16, 64] x i1, #layout> {
    ^bb0(%arg3: i32 loc("model.onnx":1:1)):
      %9 = arith.extsi %arg3 : i32 to i64 loc(#loc1)
      %10 = arith.cmpi slt, %9, %arg2 : i64 loc(#loc1)
      hw.yield %10 : i1 loc(#loc1)
    } loc(#loc1)
    hw.async_copy %arg0[%3] to %0[%c0_i32] mask %4 : !hw.tile<[16, 64] x i1, #layout> {contiguity = 8 : i64} : !llvm.ptr<1>, <[16, 64] x i32, #layout>, <1 x[16, 64] x f16, #shared_layout> loc(#loc1)
    hw.async_commit loc(#loc1)
    hw.async_wait 0 loc(#loc1)
    hw.barrier loc(#loc1)
    %5 = hw.local_load %0[%c0_i32] : <1 x[16, 64] x f16, #shared_layout> -> <[16, 64] x f16, #layout1> loc(#loc1)
    %6 = hw.iota 0 : <[16, 64] x i32, #layout1> loc(#loc1)
    %7 = hw.iota 1 : <[16, 64] x i32, #layout1> loc(#loc1)
    %8 = hw.map(%6, %7) : (!hw.tile<[16, 64] x i32, #layout1>, !hw.tile<[16, 64] x i32, #layout1>) -> !hw.tile<[16, 64] x i32, #layout1> {
    ^bb0(%arg3: i32 loc("model.onnx":1:1), %arg4: i32 loc("model.onnx":1:1)):
      %c0_i32_0 = arith.constant 0 : i32 loc(#loc1)
      %c16_i32 = arith.constant 16 : i32 loc(#loc1)
      %9 = arith.muli %c0_i32_0, %c16_i32 : i32 loc(#loc1)
      %10 = arith.addi %9, %arg3 : i32 loc(#loc1)
      %c64_i32 = arith.constant 64 : i32 loc(#loc1)
      %11 = arith.muli %10, %c64_i32 : i32 loc(#loc1)
      %12 = arith.addi %11, %arg4 : i32 loc(#loc1)
      hw.yield %12 : i32 loc(#loc1)
    } loc(#loc1)
    hw.store %5, %arg1[%8] : <[16, 64] x f16, #layout1>, !llvm.ptr<1>, <[16, 64] x i32, #layout1> loc(#loc1)
    hw.return loc(#loc1)
  } loc(#loc1)
} loc(#loc)
#loc = loc(unknown)
