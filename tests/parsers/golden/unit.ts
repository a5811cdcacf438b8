interface A { x: number }
