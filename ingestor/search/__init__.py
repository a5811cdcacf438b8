"""Search: hits by vectors and by words, fused; passages with what stands around them."""
