class A { void f() {} }
