# frozen_string_literal: true

require_relative "errors"

module Prosody
  # Declares which exceptions of a method are permanent and which are transient. Built into
  # {EventHandler}; `extend` it in any other handler class.
  #
  # A declaration wraps the named method: the listed classes, and what inherits from them, are raised as
  # {PermanentError} or {TransientError} with the same message and backtrace, and the original as `cause`.
  #
  # * A declaration may stand before or after the method's definition.
  # * It is inherited, and holds for a method that a subclass defines anew.
  # * If several declarations match an error, the one of the most derived class wins, and within a class
  #   the one that was declared last.
  # * An error that is an {EventHandlerError} already passes through untouched, unless a declaration lists
  #   such a class by name (`permanent :on_message, Prosody::NullValueError`).
  # * Exceptions that end a process or cancel a task (`SystemExit`, `SignalException`, `Async::Stop`) pass
  #   through untouched, whatever is listed.
  # * A method that is classified but never defined is a `NameError` when the handler subscribes.
  #
  # @example
  #   class OrderHandler < Prosody::EventHandler
  #     permanent :on_message, TypeError, KeyError
  #     transient :on_message, Net::OpenTimeout
  #
  #     def on_message(context, message)
  #       # ...
  #     end
  #   end
  module ErrorClassification
    # One declaration.
    class Rule
      # @return [Class] PermanentError or TransientError
      attr_reader :classified_as

      # @param classified_as [Class]
      # @param classes [Array<Class>] exception classes
      def initialize(classified_as, classes)
        @classified_as = classified_as
        @classes = classes.freeze
        freeze
      end

      # @param error [Exception]
      # @return [Boolean]
      def match?(error)
        candidates = error.is_a?(EventHandlerError) ? @classes.select { |type| type <= EventHandlerError } : @classes
        candidates.any? { |type| type === error }
      end
    end
    private_constant :Rule

    ENDS_OR_CANCELS = %w[SystemExit SignalException Async::Stop Async::Cancel].freeze
    private_constant :ENDS_OR_CANCELS

    # Handlers may define a `class` method of their own.
    CLASS_OF = ::Kernel.instance_method(:class)
    private_constant :CLASS_OF

    # Errors of the named method that another attempt would meet again: never retried.
    #
    # @param method [Symbol, String] such as `:on_message`; may be defined later
    # @param classes [Array<Class>] exception classes, at least one
    # @return [void]
    # @raise [ArgumentError] if no class is given, or something that is no exception class
    def permanent(method, *classes)
      ErrorClassification.declare(self, method, PermanentError, classes)
    end

    # Errors of the named method that may pass: retried as the client's mode says.
    #
    # @param (see #permanent)
    # @return [void]
    # @raise (see #permanent)
    def transient(method, *classes)
      ErrorClassification.declare(self, method, TransientError, classes)
    end

    # Modules bring methods without `method_added`.
    #
    # @api private
    def include(*modules)
      super
      ErrorClassification.wrap_all(self)
      self
    end

    private

    def method_added(method)
      super
      ErrorClassification.method_defined(self, method)
    end

    class << self
      # Which methods are classified but not defined. {Client#subscribe} raises NameError for them.
      #
      # @param handler [Object]
      # @return [Array<Symbol>] the ancestors' declarations first
      def undefined_methods(handler)
        classified_methods(CLASS_OF.bind_call(handler)).reject { |method| handler.respond_to?(method, true) }
      end

      # @api private
      def declare(owner, method, classified_as, classes)
        check_arguments(method, classified_as, classes)
        name = method.to_sym
        rules = owner.instance_variable_get(:@prosody_error_rules) || owner.instance_variable_set(:@prosody_error_rules, {})
        (rules[name] ||= []).unshift(Rule.new(classified_as, classes))
        wrap(owner, name)
        nil
      end

      # @api private
      def method_defined(owner, name)
        return if owner.instance_variable_get(:@prosody_wrapping)

        wrap_own(owner, name) if classified_methods(owner).include?(name)
      end

      # @api private
      def wrap_all(owner)
        classified_methods(owner).each { |name| wrap(owner, name) }
      end

      # @api private
      def reraise(handler, owner, name, error)
        rule = matching_rule(handler, owner, name, error)
        # Without arguments the error in flight keeps its backtrace and cause.
        ::Kernel.raise unless rule

        ::Kernel.raise rule.classified_as, error.message, error.backtrace, cause: error
      end

      private

      def wrap(owner, name)
        if own_method?(owner, name)
          wrap_own(owner, name) unless wrapped?(owner, name)
        else
          wrap_inherited(owner, name)
        end
        # A subclass that was loaded before the declaration inherits it as well.
        owner.subclasses.each { |subclass| wrap(subclass, name) } if owner.is_a?(Class)
      end

      # In place, because a prepended module would hide the method from a later `private :on_message`.
      def wrap_own(owner, name)
        define_wrapper(owner, name, owner.instance_method(name))
      end

      # Only where nothing that is inherited applies this class's own rules already.
      def wrap_inherited(owner, name)
        return unless owner.method_defined?(name) || owner.private_method_defined?(name)

        definer = owner.instance_method(name).owner
        # The base methods stand for "not defined"; a wrapper around them would pass for a definition.
        return if definer == EventHandler
        return if wrapped?(definer, name) && !rules_of(owner).key?(name)

        define_wrapper(owner, name, nil)
      end

      # Without an original, the wrapper calls whatever is inherited at the time of the call.
      def define_wrapper(owner, name, original)
        visibility = visibility_of(owner, name)
        two_arguments = owner.instance_method(name).parameters.map(&:first) == %i[req req]
        wrapper = two_arguments ? two_argument_wrapper(owner, name, original) : any_argument_wrapper(owner, name, original)

        owner.instance_variable_set(:@prosody_wrapping, true)
        # Ruby warns of a redefined method unless it has an alias.
        owner.alias_method(name, name) if own_method?(owner, name)
        owner.define_method(name, &wrapper)
        owner.alias_method(name, name)
        owner.send(:ruby2_keywords, name) unless two_arguments
        owner.send(visibility, name)
        (owner.instance_variable_get(:@prosody_wrapped) || owner.instance_variable_set(:@prosody_wrapped, [])) << name
      ensure
        owner.instance_variable_set(:@prosody_wrapping, false)
      end

      # The signature of handlers gets a wrapper of its own: it allocates nothing per call.
      def two_argument_wrapper(owner, name, original)
        proc do |first, second, &block|
          original ? original.bind_call(self, first, second, &block) : super(first, second, &block)
        rescue ::Exception => error # standard:disable Lint/RescueException
          ErrorClassification.reraise(self, owner, name, error)
        end
      end

      def any_argument_wrapper(owner, name, original)
        proc do |*arguments, &block|
          original ? original.bind_call(self, *arguments, &block) : super(*arguments, &block)
        rescue ::Exception => error # standard:disable Lint/RescueException
          ErrorClassification.reraise(self, owner, name, error)
        end
      end

      def matching_rule(handler, owner, name, error)
        return if ends_or_cancels?(error)

        # What only a subclass lists is left to the subclass's own wrapper, behind its own rescue clauses.
        inherited = first_match(owner, name, error)
        return unless inherited

        rule = first_match(CLASS_OF.bind_call(handler), name, error) || inherited
        rule unless error.is_a?(rule.classified_as)
      end

      def first_match(owner, name, error)
        owner.ancestors.each do |ancestor|
          rule = rules_of(ancestor)[name]&.find { |candidate| candidate.match?(error) }
          return rule if rule
        end
        nil
      end

      # By name: async is loaded by those who use it, and calls its cancellation by either name.
      def ends_or_cancels?(error)
        CLASS_OF.bind_call(error).ancestors.any? { |ancestor| ENDS_OR_CANCELS.include?(ancestor.name) }
      end

      def classified_methods(owner)
        owner.ancestors.reverse.flat_map { |ancestor| rules_of(ancestor).keys }.uniq
      end

      def rules_of(owner)
        owner.instance_variable_get(:@prosody_error_rules) || {}
      end

      def own_method?(owner, name)
        owner.method_defined?(name, false) || owner.private_method_defined?(name, false)
      end

      def wrapped?(owner, name)
        own_method?(owner, name) && owner.instance_variable_get(:@prosody_wrapped)&.include?(name)
      end

      def visibility_of(owner, name)
        return :private if owner.private_method_defined?(name)

        owner.protected_method_defined?(name) ? :protected : :public
      end

      def check_arguments(method, classified_as, classes)
        verb = (classified_as == PermanentError) ? "permanent" : "transient"
        unless method.is_a?(Symbol) || method.is_a?(String)
          ::Kernel.raise ::ArgumentError, "#{verb}: got #{method.inspect}, expected a method name such as :on_message, " \
            "followed by exception classes"
        end
        if classes.empty?
          ::Kernel.raise ::ArgumentError, "#{verb} #{method.inspect}: no exception class given; name at least one, " \
            "as in `#{verb} #{method.inspect}, KeyError`"
        end
        wrong = classes.reject { |type| type.is_a?(Class) && type <= Exception }
        return if wrong.empty?

        ::Kernel.raise ::ArgumentError, "#{verb} #{method.inspect}: got #{wrong.map(&:inspect).join(", ")}, " \
          "expected classes that inherit from Exception"
      end
    end
  end
end
