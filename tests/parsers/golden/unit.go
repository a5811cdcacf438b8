func (t T) F() {}
