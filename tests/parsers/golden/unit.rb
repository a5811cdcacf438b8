class A
  def f; end
end
