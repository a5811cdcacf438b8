class A { void F() {} }
